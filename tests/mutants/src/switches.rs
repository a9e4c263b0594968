//! Where a source file can be changed, and the file with a switch at each of those locations.
//!
//! Every change is compiled in at once, as `if mutant::on(7) { changed } else { original }`, so that one build serves
//! all mutants and a run chooses its mutant by number.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// One change at one location.
#[derive(Clone)]
pub struct Change {
    /// Line of the file where it begins, from 1.
    pub line: usize,
    /// Line where it ends.
    pub end: usize,
    /// What is changed, as the source has it.
    pub from: String,
    /// What it becomes.
    pub to: String,
}

/// Text of a switch: its own words, or a range of the source that may hold further switches.
enum Fragment {
    Text(String),
    Source(Range<usize>),
}

struct Switch {
    at: Range<usize>,
    fragments: Vec<Fragment>,
    changes: Vec<Change>,
}

/// All switches of one file, outer ones before those inside them.
pub struct Switches<'a> {
    source: &'a str,
    found: Vec<Switch>,
}

/// What stands where a change's number goes in the text of a switch: the first change of the switch, or the second.
const NUMBERS: [&str; 2] = ["\u{1}", "\u{2}"];

impl<'a> Switches<'a> {
    /// Reads a file and finds its switches.
    ///
    /// # Errors
    /// When the source is no Rust.
    pub fn of(source: &'a str) -> syn::Result<Self> {
        let file = syn::parse_file(source)?;
        let mut switches = Switches { source, found: Vec::new() };
        switches.visit_file(&file);
        Ok(switches)
    }

    /// The file with those switches whose line `kept` accepts; changes are numbered from `first` in the order of the
    /// list that comes with it.
    pub fn write(&self, first: u32, kept: impl Fn(usize) -> bool) -> (String, Vec<Change>) {
        let mut changes = Vec::new();
        let firsts: Vec<Option<u32>> = self
            .found
            .iter()
            .map(|switch| {
                if !kept(switch.changes[0].line) {
                    return None;
                }
                let number = first + changes.len() as u32;
                changes.extend(switch.changes.iter().cloned());
                Some(number)
            })
            .collect();
        let mut text = String::new();
        self.copy(0..self.source.len(), 0, &firsts, &mut text);
        (text, changes)
    }

    fn copy(&self, range: Range<usize>, from: usize, firsts: &[Option<u32>], out: &mut String) {
        let mut at = range.start;
        while let Some(i) = (from..self.found.len())
            .filter(|&i| {
                firsts[i].is_some() && self.found[i].at.start >= at && self.found[i].at.end <= range.end
            })
            .min_by_key(|&i| (self.found[i].at.start, i))
        {
            let switch = &self.found[i];
            out.push_str(&self.source[at..switch.at.start]);
            for fragment in &switch.fragments {
                match fragment {
                    Fragment::Text(text) => {
                        let mut text = text.clone();
                        for (k, number) in NUMBERS.iter().enumerate() {
                            text = text.replace(number, &(firsts[i].unwrap_or(0) + k as u32).to_string());
                        }
                        out.push_str(&text);
                    }
                    Fragment::Source(inner) => self.copy(inner.clone(), i + 1, firsts, out),
                }
            }
            at = switch.at.end;
        }
        out.push_str(&self.source[at..range.end]);
    }

    fn switch(&mut self, span: Span, fragments: Vec<Fragment>, changes: Vec<(String, String)>) {
        let (line, end) = (span.start().line, span.end().line);
        let changes = changes
            .into_iter()
            .map(|(from, to)| Change { line, end, from: one_line(&from), to: one_line(&to) })
            .collect();
        self.found.push(Switch { at: span.byte_range(), fragments, changes });
    }

    fn text(&self, span: Span) -> String {
        self.source[span.byte_range()].to_owned()
    }
}

fn one_line(text: &str) -> String {
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn words(text: impl Into<String>) -> Fragment {
    Fragment::Text(text.into())
}

fn source(span: Span) -> Fragment {
    Fragment::Source(span.byte_range())
}

/// What a binary operator becomes, and whether it compares.
fn other(op: &syn::BinOp) -> Option<(&'static str, &'static str, bool)> {
    use syn::BinOp::*;
    Some(match op {
        Lt(_) => ("<", "<=", true),
        Le(_) => ("<=", "<", true),
        Gt(_) => (">", ">=", true),
        Ge(_) => (">=", ">", true),
        Eq(_) => ("==", "!=", true),
        Ne(_) => ("!=", "==", true),
        Add(_) => ("+", "-", false),
        Sub(_) => ("-", "+", false),
        Mul(_) => ("*", "+", false),
        Div(_) => ("/", "*", false),
        Rem(_) => ("%", "/", false),
        BitAnd(_) => ("&", "|", false),
        BitOr(_) => ("|", "&", false),
        BitXor(_) => ("^", "|", false),
        Shl(_) => ("<<", ">>", false),
        Shr(_) => (">>", "<<", false),
        AddAssign(_) => ("+=", "-=", false),
        SubAssign(_) => ("-=", "+=", false),
        BitOrAssign(_) => ("|=", "&=", false),
        BitAndAssign(_) => ("&=", "|=", false),
        ShlAssign(_) => ("<<=", ">>=", false),
        ShrAssign(_) => (">>=", "<<=", false),
        _ => return None,
    })
}

/// Tests, and what is compiled for another architecture.
fn is_left_out(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        let text = a.span().source_text().unwrap_or_default();
        a.path().is_ident("test")
            || (a.path().is_ident("cfg") && (text.contains("test") || text.contains("aarch64")))
    })
}

fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(b) => has_let(&b.left) || has_let(&b.right),
        syn::Expr::Paren(p) => has_let(&p.expr),
        _ => false,
    }
}

impl Switches<'_> {
    fn body(&mut self, output: &syn::ReturnType, block: &syn::Block) {
        let returned = match output {
            syn::ReturnType::Default => vec![""],
            syn::ReturnType::Type(_, ty) => match self.text(ty.span()).as_str() {
                "bool" => vec!["true", "false"],
                "usize" | "u8" | "u16" | "u32" | "u64" | "i32" => vec!["0", "1"],
                text if text.starts_with("Option<") => vec!["None"],
                _ => return,
            },
        };
        let inside = block.brace_token.span.join().byte_range();
        let mut prefix = String::from("{");
        for (number, value) in NUMBERS.iter().zip(&returned) {
            prefix += &format!(" if crate::mutant::on({number}) {{ return {value}; }}");
        }
        let changes = returned.iter().map(|v| ("the whole body".to_owned(), format!("return {v}"))).collect();
        let fragments = vec![words(prefix), Fragment::Source(inside.start + 1..inside.end)];
        self.switch(block.span(), fragments, changes);
    }

    fn condition(&mut self, cond: &syn::Expr) {
        if has_let(cond) {
            return;
        }
        let text = self.text(cond.span());
        let fragments = vec![
            words("((crate::mutant::on(\u{1}) || ("),
            source(cond.span()),
            words(")) && !crate::mutant::on(\u{2}))"),
        ];
        self.switch(cond.span(), fragments, vec![(text.clone(), "true".into()), (text, "false".into())]);
    }
}

impl<'ast> Visit<'ast> for Switches<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() && !is_left_out(&item.attrs) {
            self.body(&item.sig.output, &item.block);
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_none() && !is_left_out(&item.attrs) {
            self.body(&item.sig.output, &item.block);
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_left_out(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    // Values that the compiler computes cannot ask which mutant runs.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.condition(&expr.cond);
        visit::visit_expr_if(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        let span = expr.span();
        let (left, right) = (expr.left.span(), expr.right.span());
        match (&expr.op, other(&expr.op)) {
            (syn::BinOp::And(_) | syn::BinOp::Or(_), _) if !has_let(&syn::Expr::Binary(expr.clone())) => {
                let and = matches!(expr.op, syn::BinOp::And(_));
                // `a && b` becomes `a || b`, and each side is read once.
                let join = if and {
                    "; if crate::mutant::on(\u{1}) { mutant_l || "
                } else {
                    "; if crate::mutant::on(\u{1}) { mutant_l && "
                };
                let kept = if and { " } else { mutant_l && " } else { " } else { mutant_l || " };
                let fragments = vec![
                    words("({ let mutant_l = "),
                    source(left),
                    words(format!("{join}(")),
                    source(right),
                    words(format!("){kept}(")),
                    source(right),
                    words(") } })"),
                ];
                let (from, to) = if and { ("&&", "||") } else { ("||", "&&") };
                self.switch(span, fragments, vec![(self.text(span), format!("{to} for {from}"))]);
            }
            (_, Some((from, to, compares))) => {
                let assigns = from.len() > 1 && from.ends_with('=') && !compares;
                let fragments = if assigns {
                    vec![
                        words("{ let mutant_r = "),
                        source(right),
                        words("; if crate::mutant::on(\u{1}) { "),
                        source(left),
                        words(format!(" {to} mutant_r }} else {{ ")),
                        source(left),
                        words(format!(" {from} mutant_r }} }}")),
                    ]
                } else {
                    let (open, by) = if compares { ("&(", "*") } else { ("(", "") };
                    vec![
                        words(format!("({{ let (mutant_l, mutant_r) = ({open}")),
                        source(left),
                        words(format!("), {open}")),
                        source(right),
                        words(format!(
                            ")); if crate::mutant::on(\u{1}) {{ {by}mutant_l {to} {by}mutant_r }} else {{ {by}mutant_l {from} {by}mutant_r }} }})"
                        )),
                    ]
                };
                self.switch(span, fragments, vec![(self.text(span), format!("{to} for {from}"))]);
            }
            _ => {}
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if let syn::UnOp::Not(_) = expr.op {
            let inner = expr.expr.span();
            let fragments = vec![
                words("({ let mutant_v = "),
                source(inner),
                words("; if crate::mutant::on(\u{1}) { mutant_v } else { !mutant_v } })"),
            ];
            self.switch(expr.span(), fragments, vec![(self.text(expr.span()), "without `!`".into())]);
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_lit(&mut self, expr: &'ast syn::ExprLit) {
        if let syn::Lit::Int(number) = &expr.lit {
            let text = self.text(number.span());
            let suffix = number.suffix();
            let to =
                if number.base10_digits() == "0" { format!("1{suffix}") } else { format!("({text} - 1)") };
            let switch = format!("(if crate::mutant::on(\u{1}) {{ {to} }} else {{ {text} }})");
            self.switch(expr.span(), vec![words(switch)], vec![(text, to)]);
        }
    }

    fn visit_stmt(&mut self, stmt: &'ast syn::Stmt) {
        // A line left out. Only what is done for its effect: calls and assignments.
        if let syn::Stmt::Expr(expr, Some(_)) = stmt {
            let effect = match expr {
                syn::Expr::MethodCall(_) | syn::Expr::Call(_) => true,
                // A variable may have no value without it.
                syn::Expr::Assign(a) => !matches!(*a.left, syn::Expr::Path(_) | syn::Expr::Tuple(_)),
                syn::Expr::Binary(b) => self.text(b.op.span()).ends_with('='),
                _ => false,
            };
            if effect {
                let span = stmt.span();
                let fragments = vec![words("if !crate::mutant::on(\u{1}) { "), source(span), words(" }")];
                self.switch(span, fragments, vec![(self.text(span), "left out".into())]);
            }
        }
        visit::visit_stmt(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(source: &str) -> (String, Vec<Change>) {
        Switches::of(source).unwrap().write(1, |_| true)
    }

    #[test]
    fn nested_switches_are_all_written_and_the_result_is_rust() {
        let source = "fn f(a: usize, b: usize) -> bool {\n    if a + 1 < b && !(b == 2) {\n        g(a);\n    }\n    a * b > 7\n}\n";
        let (text, changes) = written(source);
        syn::parse_file(&text).unwrap();
        let lines: Vec<usize> = changes.iter().map(|c| c.line).collect();
        assert_eq!(text.lines().count(), source.lines().count(), "{text}");
        // The body (2), the condition (2), `&&`, `<`, `+`, `1`, `!`, `==`, `2`, `g(a);`, `>`, `*`, `7`.
        assert_eq!(changes.len(), 15);
        assert!(lines.iter().all(|&l| (1..=5).contains(&l)));
        for number in 1..=15 {
            assert!(text.contains(&format!("mutant::on({number})")), "{number} in {text}");
        }
    }

    #[test]
    fn what_the_compiler_computes_is_left_alone() {
        let source = "const N: usize = 4 + 1;\nconst fn f() -> usize { 1 + 2 }\nfn g() -> [u8; 4] { let x = [h(); 2 + 1]; k::<3>(x) }\n#[cfg(test)]\nmod tests { fn t() { a(1) } }\n";
        let (text, changes) = written(source);
        assert_eq!(text, source);
        assert!(changes.is_empty());
    }

    #[test]
    fn a_line_that_is_not_kept_has_no_switch() {
        let source = "fn f(a: u8) -> u8 {\n    let b = a + 1;\n    b - 2\n}\n";
        let (text, changes) = Switches::of(source).unwrap().write(5, |line| line != 2);
        assert!(text.contains("let b = a + 1;"));
        assert!(text.contains("mutant::on(5)"));
        assert_eq!(changes.len(), 4);
    }
}
