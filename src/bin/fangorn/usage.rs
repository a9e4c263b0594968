//! Messages about wrong arguments, on one line each, with what to write instead.

use std::{
    error::Error as _,
    ffi::OsString,
    num::{IntErrorKind, ParseFloatError, ParseIntError},
};

use clap::{
    Command, CommandFactory, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::error::one_line;

/// Returns an error of clap on one line, or `None` if the user asked for help or the version.
pub fn line<C: CommandFactory>(error: &Error) -> Option<String> {
    let program = C::command();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (command, name) = innermost(&program, &arguments);
    let what = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("a command is missing, one of {}", visible(command).join(", "))
        }
        ErrorKind::UnknownArgument => {
            hyphened_value::<C>(error, command, &arguments).unwrap_or_else(|| unknown_argument(error))
        }
        ErrorKind::InvalidSubcommand => unknown_command(error, command),
        _ => wrong_value(error).unwrap_or_else(|| sentences(error)),
    };
    Some(format!("{}; see {name} --help", one_line(&what)))
}

/// Returns the innermost command that the arguments name, and its name after the names of those around it.
fn innermost<'c>(program: &'c Command, arguments: &[OsString]) -> (&'c Command, String) {
    let (mut command, mut name) = (program, program.get_name().to_owned());
    for argument in arguments.iter().skip(1) {
        let Some(inner) = command.find_subcommand(argument) else { break };
        command = inner;
        name = format!("{name} {}", inner.get_name());
    }
    (command, name)
}

/// Returns the names of the commands in a command that its help lists.
fn visible(command: &Command) -> Vec<&str> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(Command::get_name).collect()
}

/// Returns the context of an error if it is one text.
fn context(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

fn unknown_command(error: &Error, command: &Command) -> String {
    let given = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    let known = visible(command);
    let near: &[String] = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(near)) => near,
        _ => &[],
    };
    let near = near.iter().map(String::as_str).filter(|name| known.contains(name));
    format!("unknown command '{given}'{}", near_ones(near))
}

/// Leaves out clap's tip to pass the option after `--`, where it would be a file's name.
fn unknown_argument(error: &Error) -> String {
    let given = context(error, ContextKind::InvalidArg).unwrap_or_default();
    if !given.starts_with('-') {
        return format!("unexpected argument '{given}'");
    }
    let near = context(error, ContextKind::SuggestedArg);
    let remedy = match near.is_none() && given.contains("thread") {
        true => "; the variable RAYON_NUM_THREADS sets the number of threads",
        false => "",
    };
    format!("unknown option '{given}'{}{remedy}", near_ones(near.into_iter()))
}

fn near_ones<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    match &*names {
        [] => String::new(),
        [one] => format!("; a near one is {one}"),
        several => format!("; near ones are {}", several.join(", ")),
    }
}

/// Returns the message about an option's value that begins with a hyphen and a number, which clap takes for an option.
/// Returns `None` for any other argument.
fn hyphened_value<C: CommandFactory>(
    error: &Error,
    command: &Command,
    arguments: &[OsString],
) -> Option<String> {
    let given = context(error, ContextKind::InvalidArg)?;
    let is_number = |text: &str| {
        text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    if !is_number(given) {
        return None;
    }
    let at = arguments.iter().position(|argument| argument.to_string_lossy().starts_with(given))?;
    let option = arguments.get(at.checked_sub(1)?)?.to_str()?;
    let takes_it = |arg: &clap::Arg| {
        let long = arg.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long));
        let short = arg.get_short().is_some_and(|short| option == format!("-{short}"));
        (long || short) && arg.get_action().takes_values()
    };
    if !command.get_arguments().any(takes_it) {
        return None;
    }
    // With `=` the value reaches the option, whose own message says what is wrong with it.
    let value = arguments[at].to_string_lossy();
    let joined = format!("{option}={value}");
    let mut again = arguments.to_vec();
    again.splice(at - 1..=at, [OsString::from(&joined)]);
    let refused = C::command().try_get_matches_from(again).err();
    let message = refused.as_ref().and_then(wrong_value);
    Some(message.unwrap_or_else(|| {
        format!("'{value}' begins like an option; write {joined} if it is the value of {option}")
    }))
}

/// Returns the message about a value that its option's parser refuses, or `None` for another error.
fn wrong_value(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let option = context(error, ContextKind::InvalidArg)?;
    let value = context(error, ContextKind::InvalidValue)?;
    let remedy = remedy(option, error.source()?);
    Some(format!("invalid value '{value}' for '{option}': {remedy}"))
}

/// Says what to write for an option, from the error of its value's parser. The errors of Rust's own parsers do not say
/// it.
fn remedy(option: &str, error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<ParseIntError>() {
        return match (error.kind(), option.contains("-bytes ")) {
            (IntErrorKind::PosOverflow, _) => "the number is too large; give a smaller one".into(),
            (_, true) => "give a number of bytes, for example 1000000000".into(),
            (_, false) => "give a whole number, for example 1000".into(),
        };
    }
    if error.is::<ParseFloatError>() {
        return "give a number, for example 0.5".into();
    }
    let text = error.to_string();
    let bounds = text.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
    match bounds {
        Some((least, most)) => format!("give a whole number from {least} to {most}"),
        None => text,
    }
}

/// Joins the parser's paragraphs into one line. Leaves out the usage and the hint at `--help`.
fn sentences(error: &Error) -> String {
    let text = error.render().to_string();
    let said =
        |paragraph: &&str| !paragraph.starts_with("Usage:") && !paragraph.starts_with("For more information");
    let paragraphs: Vec<String> = text.split("\n\n").map(str::trim).filter(said).map(sentence).collect();
    paragraphs.join("; ").trim_start_matches("error: ").to_owned()
}

/// Returns a paragraph as one line. The items of a list under a colon get commas.
fn sentence(paragraph: &str) -> String {
    let mut lines = paragraph.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let between = if first.ends_with(':') { ", " } else { " " };
    let rest = lines.collect::<Vec<_>>().join(between);
    one_line(&format!("{first} {rest}"))
}
