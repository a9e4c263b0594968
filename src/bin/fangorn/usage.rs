//! Messages about wrong arguments, on one line each, with what to write instead.

use std::ffi::OsStr;

use clap::{CommandFactory, Error, error::ErrorKind};

use crate::error::one_line;

/// Returns an error of clap on one line, or `None` if the user asked for help or the version.
pub fn line<C: CommandFactory>(error: &Error) -> Option<String> {
    let program = C::command();
    let names = || program.get_subcommands().map(clap::Command::get_name);
    let given = std::env::args_os().nth(1);
    let is_given = |name: &&str| given.as_deref() == Some(OsStr::new(*name));
    let command = names().find(is_given).map(|name| format!(" {name}")).unwrap_or_default();
    let what = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("a command is missing, one of {}", names().collect::<Vec<_>>().join(", "))
        }
        _ => sentences(&error.render().to_string()),
    };
    Some(format!("{what}; see fangorn{command} --help"))
}

/// Joins the parser's paragraphs into one line. Leaves out the usage and the hint at `--help`.
fn sentences(text: &str) -> String {
    let said = |part: &&str| !part.starts_with("Usage:") && !part.starts_with("For more information");
    let parts: Vec<String> = text.split("\n\n").map(str::trim).filter(said).map(sentence).collect();
    parts.join("; ").trim_start_matches("error: ").to_owned()
}

/// Returns a paragraph as one line. The items of a list under a colon get commas.
fn sentence(paragraph: &str) -> String {
    let mut lines = paragraph.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let between = if first.ends_with(':') { ", " } else { " " };
    let rest = lines.collect::<Vec<_>>().join(between);
    one_line(&format!("{first} {rest}"))
}
