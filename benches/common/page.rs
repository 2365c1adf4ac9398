//! Tables that a bench keeps up to date in a document.

use std::{fs, path::Path};

use super::Outcome;

/// Puts a text between the marks of this name in `performance.md`.
pub(crate) fn put(folder: &Path, name: &str, text: &str) -> Outcome {
    let page = folder.join("performance.md");
    let (begin, end) = (mark(name, "begin"), mark(name, "end"));
    let now = fs::read_to_string(&page)?;
    let no_place = || format!("{} has no marks for {name}", page.display());
    let (before, rest) = now.split_once(&*begin).ok_or_else(no_place)?;
    let (_, after) = rest.split_once(&*end).ok_or_else(no_place)?;
    let text = text.trim_end();
    Ok(fs::write(
        &page,
        format!("{before}{begin}\n{text}\n{end}{after}"),
    )?)
}

fn mark(name: &str, which: &str) -> String {
    format!("<!-- {name}: {which}, written by .ci/compare -->")
}
