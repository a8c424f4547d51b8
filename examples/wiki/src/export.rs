//! Reads MediaWiki's XML exports: titles, and the texts of revisions in their order.
//!
//! It knows the part of XML that exports have: elements, attributes that it skips, entities,
//! comments, CDATA. There are no entities of a document's own, so none can blow up.

/// A page of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedPage {
    /// Its title.
    pub title: String,
    /// Its revisions, the oldest first.
    pub revisions: Vec<ExportedRevision>,
}

/// A revision of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedRevision {
    /// When it was written there.
    pub timestamp: String,
    /// By whom.
    pub author: String,
    /// Why.
    pub comment: String,
    /// The page's text.
    pub text: String,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ExportError {
    /// Where.
    pub line: usize,
    /// What.
    pub why: String,
}

/// How deep elements nest.
const DEPTH_MAX: usize = 64;

/// A piece of XML.
enum Token<'a> {
    Open { name: &'a str, is_empty: bool },
    Close(&'a str),
    Text(String),
}

struct Reader<'a> {
    whole: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, why: impl Into<String>) -> ExportError {
        let line = self.whole[..self.at].bytes().filter(|byte| *byte == b'\n').count() + 1;
        ExportError { line, why: why.into() }
    }

    /// What stands before `end`, which is skipped.
    fn until(&mut self, end: &str) -> Result<&'a str, ExportError> {
        let rest = &self.whole[self.at..];
        let Some((before, _)) = rest.split_once(end) else {
            return Err(self.error(format!("{end:?} is missing")));
        };
        self.at += before.len() + end.len();
        Ok(before)
    }

    fn next(&mut self) -> Result<Option<Token<'a>>, ExportError> {
        let rest = &self.whole[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        for (begin, end) in [("<!--", "-->"), ("<?", "?>"), ("<!DOCTYPE", ">")] {
            if rest.starts_with(begin) {
                self.until(end)?;
                return self.next_again();
            }
        }
        if rest.starts_with("<![CDATA[") {
            self.at += "<![CDATA[".len();
            return Ok(Some(Token::Text(self.until("]]>")?.to_owned())));
        }
        if rest.starts_with('<') {
            let inner = self.until(">")?[1..].trim();
            if let Some(name) = inner.strip_prefix('/') {
                return Ok(Some(Token::Close(name.trim())));
            }
            let is_empty = inner.ends_with('/');
            let inner = inner.trim_end_matches('/');
            let name = inner.split(char::is_whitespace).next().unwrap_or_default();
            return match name.is_empty() {
                true => Err(self.error("an element has no name")),
                false => Ok(Some(Token::Open { name, is_empty })),
            };
        }
        let end = rest.find('<').unwrap_or(rest.len());
        let text = unescape(&rest[..end]).map_err(|why| self.error(why))?;
        self.at += end;
        Ok(Some(Token::Text(text)))
    }

    /// The token behind what was skipped: not by recursion, for there may be many.
    fn next_again(&mut self) -> Result<Option<Token<'a>>, ExportError> {
        Ok(Some(Token::Text(String::new())))
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        let Some((name, after)) = behind.split_once(';') else {
            return Err("an entity does not end".to_owned());
        };
        let letter = match name {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            number => number
                .strip_prefix("#x")
                .map(|digits| u32::from_str_radix(digits, 16))
                .or_else(|| number.strip_prefix('#').map(str::parse))
                .and_then(|code| char::from_u32(code.ok()?)),
        };
        let shown: String = name.chars().take(20).collect();
        out.push(letter.ok_or_else(|| format!("&{shown}; is no entity"))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The pages of an export.
///
/// # Errors
/// It is no export, or is cut off.
pub fn pages(xml: &str) -> Result<Vec<ExportedPage>, ExportError> {
    let mut reader = Reader { whole: xml, at: 0 };
    let mut all = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let (mut page, mut revision) = (ExportedPage::default(), ExportedRevision::default());
    while let Some(token) = reader.next()? {
        match token {
            Token::Open { is_empty: true, .. } => {}
            Token::Open { name, .. } => {
                if open.is_empty() && name != "mediawiki" {
                    return Err(reader.error(format!("<{name}> is not <mediawiki>")));
                }
                if open.len() == DEPTH_MAX {
                    return Err(reader.error("elements nest too deep"));
                }
                open.push(name);
            }
            Token::Close(name) => {
                if open.pop() != Some(name) {
                    return Err(reader.error(format!("</{name}> ends what is not open")));
                }
                match (&open[..], name) {
                    (["mediawiki"], "page") => all.push(std::mem::take(&mut page)),
                    (["mediawiki", "page"], "revision") => {
                        page.revisions.push(std::mem::take(&mut revision));
                    }
                    _ => {}
                }
            }
            Token::Text(text) => match &open[..] {
                ["mediawiki", "page", "title"] => page.title += &text,
                ["mediawiki", "page", "revision", rest @ ..] => match rest {
                    ["timestamp"] => revision.timestamp += &text,
                    ["comment"] => revision.comment += &text,
                    ["text"] => revision.text += &text,
                    ["contributor", "username" | "ip"] => revision.author += &text,
                    _ => {}
                },
                [] if !text.trim_start_matches('\u{feff}').trim().is_empty() => {
                    return Err(reader.error("there is text outside <mediawiki>"));
                }
                _ => {}
            },
        }
    }
    match open.last() {
        Some(name) => Err(reader.error(format!("<{name}> does not end"))),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_read() {
        let all = pages(include_str!("../example.xml")).unwrap();
        assert!(all.len() >= 8);
        let carillon = all.iter().find(|page| page.title == "Carillon").unwrap();
        assert!(carillon.revisions.len() > 1);
        assert!(carillon.revisions[0].text.contains("[["));
        assert!(all.iter().all(|page| page.revisions.iter().all(|one| !one.author.is_empty())));
    }

    #[test]
    fn entities_cdata_and_comments() {
        let xml = "\u{feff}<?xml version=\"1.0\"?><!-- c --><mediawiki a=\"b\"><page>\
                   <title>A &amp; B</title><redirect title=\"x\"/><revision>\
                   <text xml:space=\"preserve\">&lt;b&gt; &#65;&#x42; <![CDATA[<i>&amp;]]></text>\
                   </revision></page></mediawiki>\n";
        let all = pages(xml).unwrap();
        assert_eq!((all.len(), all[0].title.as_str()), (1, "A & B"));
        assert_eq!(all[0].revisions[0].text, "<b> AB <i>&amp;");
    }

    #[test]
    fn what_is_no_export_is_refused_with_its_line() {
        for (xml, line, why) in [
            ("<html></html>", 1, "not <mediawiki>"),
            ("<mediawiki>\n<page>", 2, "does not end"),
            ("<mediawiki>\n\n</page>", 3, "not open"),
            ("<mediawiki>&nonsense;</mediawiki>", 1, "no entity"),
            ("<mediawiki>&#xd800;</mediawiki>", 1, "no entity"),
            ("<mediawiki", 1, "missing"),
            ("text", 1, "outside"),
            ("<>", 1, "no name"),
        ] {
            let error = pages(xml).unwrap_err();
            assert!(error.why.contains(why), "{xml}: {error}");
            assert_eq!(error.line, line, "{xml}: {error}");
        }
        let deep = "<mediawiki>".to_owned() + &"<a>".repeat(100);
        assert!(pages(&deep).unwrap_err().why.contains("deep"));
        assert_eq!(pages("").unwrap(), []);
    }
}
