//! Writes a graph as text, one line for each node and output, and reads it.
//!
//! ```text
//! %0 = input "X": dense[1000, 10]
//! %1 = input "Y": csr[1000, 10] filled 0.1
//! %2 = multiply(%0, %1)  // csr[1000, 10] filled 0.1
//! %3 = sum.full(%2)  // dense[1, 1] filled 1.0
//! output "loss": %3
//! ```
//!
//! A compressed input has its expected memory behind its shape: `input "Z": compressed[1000, 10] bytes 12000`.

use std::fmt;

use super::{
    model::{Dag, Node, Output},
    operator::{Aggregation, Binary, Direction, Format, Number, Operator, Unary},
    sizes::Shape,
};
use crate::FusionError;

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dense => "dense",
            Self::Csr => "csr",
            Self::Compressed { .. } => "compressed",
        })
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { name, shape, format, filled } => {
                write!(f, "input {name:?}: {format}[{}, {}]", shape.0, shape.1)?;
                if let Format::Compressed { bytes } = format {
                    write!(f, " bytes {bytes}")?;
                }
                if filled.0 == 1.0 { Ok(()) } else { write!(f, " filled {:?}", filled.0) }
            }
            Self::Literal(Number(value)) => write!(f, "literal {value:?}"),
            Self::Unary(unary) => f.write_str(unary.name()),
            Self::Binary(binary) => f.write_str(binary.name()),
            Self::MatMul => f.write_str("matmul"),
            Self::Transpose => f.write_str("transpose"),
            Self::Aggregate(aggregation, direction) => {
                write!(f, "{}.{}", aggregation.name(), direction.name())
            }
            Self::Columns { start, end } => write!(f, "columns[{start}..{end}]"),
        }
    }
}

impl fmt::Display for Dag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.nodes().iter().enumerate() {
            write!(f, "%{at} = {}", node.operator)?;
            if node.operator.arity() > 0 {
                let inputs: Vec<String> = node.inputs.iter().map(|input| format!("%{input}")).collect();
                let size = self.size(at);
                let (rows, columns) = size.shape;
                let filled = (size.filled * 1e6).round() / 1e6;
                write!(
                    f,
                    "({})  // {}[{rows}, {columns}] filled {filled:?}",
                    inputs.join(", "),
                    size.format
                )?;
            }
            writeln!(f)?;
        }
        self.outputs().iter().try_for_each(|output| writeln!(f, "output {:?}: %{}", output.name, output.node))
    }
}

impl Dag {
    /// Reads the text that `to_string` writes. Comments after `//` and blank lines are ignored.
    ///
    /// ```
    /// use fangorn_fusion::dag::Dag;
    ///
    /// let dag = Dag::parse("%0 = input \"X\": dense[3, 2]\n%1 = sum.row(%0)\noutput \"sums\": %1\n")?;
    /// assert_eq!(dag.shape(1), (3, 1));
    /// assert_eq!(Dag::parse(&dag.to_string())?, dag);
    /// # Ok::<(), fangorn_fusion::FusionError>(())
    /// ```
    ///
    /// # Errors
    /// A line can't be read, or the graph breaks a rule of [`Dag::new`].
    pub fn parse(text: &str) -> Result<Self, FusionError> {
        let (mut nodes, mut outputs) = (Vec::new(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let mut reader = Reader { rest: line.trim() };
            if reader.rest.is_empty() || reader.rest.starts_with("//") {
                continue;
            }
            let wrong = |problem: String| FusionError::Text { line: at + 1, problem };
            if reader.take("output ") {
                let name = reader.quoted().map_err(wrong)?;
                reader.expect(": %").map_err(wrong)?;
                outputs.push(Output { name, node: reader.whole().map_err(wrong)? });
            } else {
                reader.expect("%").map_err(wrong)?;
                let index = reader.whole().map_err(wrong)?;
                if index != nodes.len() {
                    return Err(wrong(format!("node %{index} is out of order; %{} is next", nodes.len())));
                }
                reader.expect(" = ").map_err(wrong)?;
                nodes.push(reader.node().map_err(wrong)?);
            }
            reader.end().map_err(wrong)?;
        }
        Self::new(nodes, outputs)
    }
}

/// Reads a line from its beginning.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) { Ok(()) } else { Err(format!("expected {text:?} before {:?}", self.rest)) }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn whole(&mut self) -> Result<usize, String> {
        let word = self.word(|c| c.is_ascii_digit());
        word.parse().map_err(|_| format!("expected a whole number, found {word:?}"))
    }

    fn number(&mut self) -> Result<f64, String> {
        let word = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'));
        word.parse().map_err(|_| format!("expected a number, found {word:?}"))
    }

    /// Reads a text in quotation marks, as Rust writes it.
    fn quoted(&mut self) -> Result<String, String> {
        self.expect("\"")?;
        let mut found = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(found);
                }
                '\\' => match characters.next().map(|(_, c)| c) {
                    Some('n') => found.push('\n'),
                    Some('t') => found.push('\t'),
                    Some('r') => found.push('\r'),
                    Some('0') => found.push('\0'),
                    Some('u') => {
                        let digits: String =
                            characters.by_ref().map(|(_, c)| c).take_while(|c| *c != '}').collect();
                        let code = u32::from_str_radix(digits.trim_start_matches('{'), 16).ok();
                        found.push(code.and_then(char::from_u32).ok_or("a \\u that is no character")?);
                    }
                    Some(c) => found.push(c),
                    None => break,
                },
                c => found.push(c),
            }
        }
        Err("a text without its closing quotation mark".to_owned())
    }

    fn shape(&mut self) -> Result<Shape, String> {
        self.expect("[")?;
        let rows = self.whole()?;
        self.expect(", ")?;
        let columns = self.whole()?;
        self.expect("]")?;
        Ok((rows, columns))
    }

    fn node(&mut self) -> Result<Node, String> {
        let operator = self.operator()?;
        let mut inputs = Vec::new();
        if self.take("(") {
            loop {
                self.expect("%")?;
                inputs.push(self.whole()?);
                if !self.take(", ") {
                    break;
                }
            }
            self.expect(")")?;
        }
        Ok(Node { operator, inputs })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let name = self.word(char::is_alphanumeric);
        if self.take(".") {
            let direction = self.word(char::is_alphanumeric);
            let aggregation = Aggregation::ALL.iter().find(|each| each.name() == name);
            let direction = Direction::ALL.iter().find(|each| each.name() == direction);
            return match (aggregation, direction) {
                (Some(aggregation), Some(direction)) => Ok(Operator::Aggregate(*aggregation, *direction)),
                _ => Err(format!("there is no aggregate {name:?} in that direction")),
            };
        }
        if let Some(unary) = Unary::ALL.iter().find(|unary| unary.name() == name) {
            return Ok(Operator::Unary(*unary));
        }
        if let Some(binary) = Binary::ALL.iter().find(|binary| binary.name() == name) {
            return Ok(Operator::Binary(*binary));
        }
        match name {
            "input" => {
                self.expect(" ")?;
                let name = self.quoted()?;
                self.expect(": ")?;
                let format = self.word(char::is_alphanumeric);
                let shape = self.shape()?;
                let format = match format {
                    "dense" => Format::Dense,
                    "csr" => Format::Csr,
                    "compressed" => {
                        self.expect(" bytes ")?;
                        Format::Compressed { bytes: self.whole()? as u64 }
                    }
                    other => {
                        return Err(format!("there is no format {other:?}; write dense, csr or compressed"));
                    }
                };
                let filled = Number(if self.take(" filled ") { self.number()? } else { 1.0 });
                Ok(Operator::Input { name, shape, format, filled })
            }
            "literal" => {
                self.expect(" ")?;
                Ok(Operator::Literal(Number(self.number()?)))
            }
            "matmul" => Ok(Operator::MatMul),
            "transpose" => Ok(Operator::Transpose),
            "columns" => {
                self.expect("[")?;
                let start = self.whole()?;
                self.expect("..")?;
                let end = self.whole()?;
                self.expect("]")?;
                Ok(Operator::Columns { start, end })
            }
            other => Err(format!("there is no operator {other:?}")),
        }
    }

    fn end(&self) -> Result<(), String> {
        let rest = self.rest.trim_start();
        if rest.is_empty() || rest.starts_with("//") {
            return Ok(());
        }
        Err(format!("unexpected {rest:?}"))
    }
}
