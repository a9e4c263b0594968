//! The transform from margins to values, and the rule of classes, as C.

use super::text::{Number, constant};
use crate::forest::{ClassRule, Forest, Transform};

/// Returns C statements that scale the margins in `v` and make values of them, in place. `v` has room for the margins
/// and for the values. They compute in `number`.
pub(super) fn statements(forest: &Forest, number: Number) -> String {
    let (t, f) = (number.name(), number.suffix());
    let scale = match number {
        Number::F32 => f64::from(forest.scale.0 as f32),
        Number::F64 => forest.scale.0,
    };
    let scaled = match forest.scale.0 == 1.0 {
        true => String::new(),
        false => format!("    for (o = 0; o < OUTPUTS; o++) v[o] *= {};\n", constant(scale, number)),
    };
    let each = |value: &str| format!("    for (o = 0; o < OUTPUTS; o++) v[o] = {value};\n");
    let softplus = |m: &str| format!("(({m} > 0 ? {m} : 0) + log1p{f}(exp{f}({m} > 0 ? -{m} : {m})))");
    let pair = |first: &str, second: &str| {
        format!(
            "    {{\n        const {t} m = v[0];\n        v[0] = {first};\n        v[1] = {second};\n    }}\n"
        )
    };
    let transformed = match forest.transform {
        Transform::Identity => String::new(),
        Transform::Sigmoid => each(&format!("1 / (1 + exp{f}(-v[o]))")),
        Transform::Exp => each(&format!("exp{f}(v[o])")),
        Transform::Step => each("v[o] > 0"),
        Transform::Softplus => each(&softplus("v[o]")),
        Transform::SignedSquare => each(&format!("v[o] * fabs{f}(v[o])")),
        Transform::PowerOfTwo => each(&format!("exp2{f}(-v[o])")),
        Transform::Probit => each(&format!("({t})probit((double)v[o])")),
        Transform::SigmoidPair => pair(&format!("1 / (1 + exp{f}(m))"), &format!("1 / (1 + exp{f}(-m))")),
        Transform::ComplementPair => pair("1 - m", "m"),
        Transform::OppositePair => pair("-m", "m"),
        Transform::MeanAndVariance => format!("    v[1] = exp{f}(2 * v[1]);\n"),
        Transform::CumulativeSoftplus => {
            let least = constant(f64::from(fangorn_ir::LEAST_INCREMENT), number);
            format!("    for (o = 1; o < OUTPUTS; o++) v[o] = v[o - 1] + {} + {least};\n", softplus("v[o]"))
        }
        Transform::Argmax => "    for (o = 1; o < OUTPUTS; o++) if (v[o] > v[best]) best = o;\n    v[0] = \
                              (NUMBER)best;\n"
            .replace("NUMBER", t),
        Transform::Softmax | Transform::SoftmaxZero => {
            let threshold = if number == Number::F32 { f64::from(1e-7f32) } else { 1e-7 };
            let power = match forest.transform {
                Transform::Softmax => format!("exp{f}(v[o] - top)"),
                _ => format!("fabs{f}(v[o]) > {} ? exp{f}(v[o] - top) : 0", constant(threshold, number)),
            };
            format!(
                "    for (o = 0; o < OUTPUTS; o++) if (v[o] > top) top = v[o];\n\
                \x20   for (o = 0; o < OUTPUTS; o++) sum += v[o] = {power};\n\
                \x20   if (sum != 0) for (o = 0; o < OUTPUTS; o++) v[o] /= ({t})sum;\n"
            )
        }
    };
    let variables = match forest.transform {
        Transform::Softmax | Transform::SoftmaxZero => {
            format!("    {t} top = -({t})INFINITY;\n    double sum = 0;\n")
        }
        Transform::Argmax => "    uint32_t best = 0;\n".to_owned(),
        _ => String::new(),
    };
    let body = format!("{scaled}{transformed}");
    let counter = if body.contains("(o = ") { "    uint32_t o;\n" } else { "" };
    let unused = if body.is_empty() { "    (void)v;\n" } else { "" };
    format!("{counter}{variables}{body}{unused}")
}

/// Returns C's `probit`, if the transform needs it (Winitzki's approximation, as the library computes it).
pub(super) fn probit(forest: &Forest) -> &'static str {
    if forest.transform != Transform::Probit {
        return "";
    }
    "\
static double probit(double p)
{
    const double x = 2 * p - 1;
    const double of = log((1 - x) * (1 + x));
    const double a = 2 / (3.14159265358979323846 * 0.147) + 0.5 * of;
    const double root = sqrt(a * a - of / 0.147) - a;
    return sqrt(2.0) * copysign(1.0, x) * sqrt(root);
}

"
}

/// What decides a row's classes.
pub(super) struct ClassText {
    /// The number of classes that a row has.
    pub count: u32,
    /// The type of the values that decide; `None` if the margins decide.
    pub values: Option<Number>,
    /// The declarations of what the statements count with.
    pub counters: &'static str,
    /// C statements that write `classes` from `m`, the margins, and `v`, the values.
    pub statements: String,
}

/// Returns the rule of [`classes_of_sums`](crate::forest::reference::classes_of_sums) as C; `None` if the forest is no
/// classifier.
pub(super) fn classes(forest: &Forest, number: Number) -> Option<ClassText> {
    let outputs = forest.outputs;
    let largest = |of: &str, count: u32| {
        format!(
            "    for (o = 1; o < {count}; o++) if ({of}[o] > {of}[best]) best = o;\n    classes[0] = best;\n"
        )
    };
    let over = |of: &str, from: u32, stride: u32, threshold: f64| {
        let index = match (from, stride) {
            (0, 1) => "o".to_owned(),
            _ => format!("{stride} * o + {from}"),
        };
        let threshold = constant(threshold, Number::F64);
        format!("    for (o = 0; o < OUTPUTS; o++) classes[o] = (double){of}[{index}] > {threshold};\n")
    };
    // C does not define the conversion of a number that is too large.
    let whole =
        "    classes[0] = !(v[0] > 0) ? 0 : v[0] < 4294967295.0 ? (uint32_t)v[0] : 4294967295u;\n".to_owned();
    let with =
        |counters| move |count, values, statements| Some(ClassText { count, values, counters, statements });
    let alone = with("");
    let one = |values, statements| with("    uint32_t o, best = 0;\n")(1, values, statements);
    let several = |values, statements| with("    uint32_t o;\n")(outputs, values, statements);
    match (&*forest.producer.library, forest.classes.rule) {
        (_, ClassRule::None) => None,
        ("xgboost" | "lightgbm", ClassRule::Largest) if outputs > 1 => {
            match forest.transform.width(outputs) {
                1 => alone(1, Some(number), whole),
                width => one(Some(number), largest("v", width)),
            }
        }
        ("xgboost", ClassRule::Over { threshold }) => several(Some(number), over("v", 0, 1, threshold.0)),
        ("catboost", ClassRule::Over { threshold }) => {
            several(None, over("m", 0, 1, -(1.0 / threshold.0 - 1.0).ln()))
        }
        ("scikit-learn", ClassRule::Over { threshold }) if forest.transform == Transform::SigmoidPair => {
            // As the reference interpreter has it: with a threshold below one half, a margin of 0 is class 1.
            several(None, over("m", 0, 1, if threshold.0 < 0.5 { 0f64.next_down() } else { 0.0 }))
        }
        ("scikit-learn", ClassRule::Largest) if forest.transform == Transform::Identity => {
            // The quotients decide, because they may be equal where the margins are not.
            let divide =
                format!("    for (o = 0; o < OUTPUTS; o++) m[o] /= {};\n", forest.trees.len().max(1));
            one(None, divide + &largest("m", outputs))
        }
        (_, ClassRule::Largest) if outputs > 1 => one(None, largest("m", outputs)),
        (_, ClassRule::Largest) => alone(1, Some(Number::F64), whole),
        (_, ClassRule::Over { threshold }) => match forest.transform.is_pair() {
            true => several(Some(Number::F64), over("v", 1, 2, threshold.0)),
            false => several(Some(Number::F64), over("v", 0, 1, threshold.0)),
        },
    }
}
