//! As much of Rust's grammar as it takes to find what is public in a file.

/// The text of a file without comments, strings and unit tests.
pub(super) struct Source {
    text: String,
}

impl Source {
    pub(super) fn of(text: &str) -> Self {
        let text = without_prose(text);
        let end = text.find("#[cfg(test)]").unwrap_or(text.len());
        Self {
            text: text[..end].to_owned(),
        }
    }

    /// The names by which things of these crates are known here; `*` if everything is.
    pub(super) fn imports(&self, crates: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        for place in words(&self.text, "use") {
            let rest = &self.text[place + "use".len()..];
            let path = rest[..rest.find(';').unwrap_or(rest.len())].trim();
            let path = path.trim_start_matches("::");
            let root = path.split("::").next().unwrap_or_default();
            if crates.contains(&root) {
                names.extend(imported(path));
            }
        }
        names
    }

    /// Aliases, public or not, of what is foreign.
    pub(super) fn aliases(&self, names: &[String], crates: &[&str]) -> Vec<String> {
        words(&self.text, "type")
            .into_iter()
            .filter_map(|place| {
                let rest = &self.text[place + "type".len()..];
                let (name, meaning) = rest[..rest.find(';')?].split_once('=')?;
                let name = name.trim().split('<').next()?.to_owned();
                // Associated types are found with their implementation.
                let own_line = self.text[..place].rsplit('\n').next()?.trim();
                let free = own_line.is_empty() || own_line.starts_with("pub");
                (free && !name.is_empty() && mentions(meaning, names, crates)).then_some(name)
            })
            .collect()
    }

    /// What `pub` stands before: signatures, fields, the insides of enums and traits.
    pub(super) fn declarations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for place in words(&self.text, "pub") {
            let rest = self.text[place + "pub".len()..].trim_start();
            if rest.starts_with('(') {
                continue;
            }
            let keyword = rest.split(|c: char| !is_word(c)).next().unwrap_or_default();
            let end = match keyword {
                "enum" | "trait" => end_of_block(rest),
                "struct" => rest.find(['{', '(', ';']).unwrap_or(rest.len()),
                "use" | "type" => rest.find(';').unwrap_or(rest.len()),
                "fn" | "const" | "static" | "mod" | "unsafe" | "async" | "extern" => {
                    rest.find(['{', ';']).unwrap_or(rest.len())
                }
                _ => end_of_field(rest),
            };
            found.push(format!("pub {}", &rest[..end]));
        }
        found
    }

    pub(super) fn public_types(&self) -> Vec<String> {
        self.declarations()
            .iter()
            .filter_map(|declaration| {
                let mut words = declaration
                    .split(|c: char| !is_word(c))
                    .filter(|word| !word.is_empty())
                    .skip(1);
                let keyword = words.next()?;
                ["struct", "enum", "trait"]
                    .contains(&keyword)
                    .then(|| words.next().map(str::to_owned))?
            })
            .collect()
    }

    /// What traits are implemented for public types, and for foreign ones out of public ones.
    pub(super) fn implementations(&self, public: &[String], crates: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for place in words(&self.text, "impl") {
            let rest = &self.text[place..];
            let Some(open) = rest.find('{') else { continue };
            let Some((_, target)) = rest[..open].split_once(" for ") else {
                continue;
            };
            let head = target.trim().trim_start_matches("::");
            let root = head.split(|c: char| !is_word(c)).next().unwrap_or_default();
            if !crates.contains(&root) && !public.iter().any(|name| name == root) {
                continue;
            }
            let body = &rest[open..end_of_block(rest)];
            let types: Vec<&str> = words(body, "type")
                .into_iter()
                .filter_map(|place| body[place..].split(';').next())
                .collect();
            found.push(format!("{} {}", &rest[..open], types.join(" ")));
        }
        found
    }
}

/// Whether a piece of code names one of these names, or a path into one of these crates.
pub(super) fn mentions(text: &str, names: &[String], crates: &[&str]) -> bool {
    let is_named = names
        .iter()
        .any(|name| name != "*" && !words(text, name).is_empty());
    is_named
        || crates.iter().any(|&one| {
            words(text, one).into_iter().any(|place| {
                let rest = text[place + one.len()..].trim_start();
                rest.starts_with("::") || text.contains("use ")
            })
        })
}

/// The names that the path of a `use` brings in: `a::{b, c as d}` brings `b` and `d`.
fn imported(path: &str) -> Vec<String> {
    let flat = path.replace(['{', '}'], ",");
    flat.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty() && !part.ends_with("::") && *part != "self")
        .map(|part| {
            let last = part.rsplit("::").next().unwrap_or(part);
            let name = last.rsplit(" as ").next().unwrap_or(last);
            name.trim().to_owned()
        })
        .collect()
}

/// Where this word stands by itself.
fn words(text: &str, word: &str) -> Vec<usize> {
    text.match_indices(word)
        .filter(|(place, _)| {
            let before = text[..*place].chars().next_back();
            let after = text[place + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
        .map(|(place, _)| place)
        .collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn end_of_block(text: &str) -> usize {
    let mut depth = 0;
    for (place, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return place + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return place,
            _ => {}
        }
    }
    text.len()
}

fn end_of_field(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (place, c) in text.char_indices() {
        match c {
            '(' | '[' | '<' => depth += 1,
            '>' if before == '-' => {}
            ',' | ')' | '}' if depth == 0 => return place,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        before = c;
    }
    text.len()
}

/// Comments and the insides of strings and characters are no code.
fn without_prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => end_of_string(rest),
            'r' if rest.starts_with("r\"") && !out.ends_with(is_word) => {
                rest[2..].find('"').map_or(rest.len(), |end| end + 3)
            }
            'r' if rest.starts_with("r#\"") && !out.ends_with(is_word) => {
                rest.find("\"#").map_or(rest.len(), |end| end + 2)
            }
            '\'' => end_of_character(rest),
            _ => 0,
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            rest = &rest[skipped..];
        }
    }
    out
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// Zero for what is a lifetime.
fn end_of_character(text: &str) -> usize {
    let inside = &text[1..];
    if inside.starts_with('\\') {
        return inside[2..].find('\'').map_or(0, |end| 1 + 2 + end + 1);
    }
    match inside.char_indices().nth(1) {
        Some((place, '\'')) => 1 + place + 1,
        _ => 0,
    }
}
