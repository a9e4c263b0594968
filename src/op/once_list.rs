//! A map that only grows, and is read without a lock.

use std::sync::OnceLock;

/// A list of entries in the order of their first use. It has an entry for each device, type and result in
/// use, which are few.
#[derive(Debug)]
pub(super) struct OnceList<K, V> {
    head: OnceLock<Box<Entry<K, V>>>,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    next: OnceLock<Box<Self>>,
}

impl<K, V> Default for OnceList<K, V> {
    fn default() -> Self {
        Self { head: OnceLock::new() }
    }
}

impl<K, V> OnceList<K, V> {
    /// Returns the number of entries.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(super) fn len(&self) -> usize {
        let mut next = &self.head;
        let mut count = 0;
        while let Some(entry) = next.get() {
            (next, count) = (&entry.next, count + 1);
        }
        count
    }
}

impl<K: PartialEq + Clone, V> OnceList<K, V> {
    /// Returns the value of `key`. If there is none, it is made by `make`.
    pub(super) fn get_or_try_init<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<&V, E> {
        let mut make = Some(make);
        let mut made = None;
        let mut next = &self.head;
        loop {
            if next.get().is_none() {
                if let Some(make) = make.take() {
                    made = Some(make()?);
                }
                if let Some(value) = made.take() {
                    // Another thread may have been faster, with this key or another one. Our value is then
                    // still to be stored.
                    let mut ours = Some(Box::new(Entry { key: key.clone(), value, next: OnceLock::new() }));
                    let _ = next.get_or_init(|| ours.take().expect("taken once"));
                    made = ours.map(|entry| entry.value);
                }
            }
            match next.get() {
                Some(entry) if entry.key == *key => return Ok(&entry.value),
                Some(entry) => next = &entry.next,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OnceList;

    #[test]
    fn makes_each_value_once_and_finds_it_again() {
        let list = OnceList::default();
        let mut made = 0;
        for key in [1, 2, 1, 3, 2, 1] {
            let value = list.get_or_try_init(&key, || {
                made += 1;
                Ok::<_, ()>(key * 10)
            });
            assert_eq!(value, Ok(&(key * 10)));
        }
        assert_eq!(made, 3);
        assert_eq!(list.get_or_try_init(&4, || Err("no")), Err("no"));
        assert_eq!(list.get_or_try_init(&4, || Ok::<_, ()>(7)), Ok(&7));
    }

    #[test]
    fn threads_agree_on_one_value() {
        let list = OnceList::default();
        let values: Vec<usize> = std::thread::scope(|s| {
            let run = |i: usize| *list.get_or_try_init(&"key", || Ok::<_, ()>(i)).expect("made");
            let threads: Vec<_> = (0..8).map(|i| s.spawn(move || run(i))).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect()
        });
        assert!(values.windows(2).all(|w| w[0] == w[1]), "{values:?}");
    }
}
