//! Reads tables key by key and goes on after a fault, so that one look shows everything that is wrong.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::keys;
use super::overrides::{self, Override};
use super::problem::{Fault, Place, Problem};
use super::value;
use crate::throttle::Rate;

/// More of anything than this is a slip of the hand.
const MOST: u64 = 1_000_000_000;

/// A file that is something else altogether need not be quoted whole.
const MOST_SYNTAX_ERRORS: usize = 10;

/// What all sections of one file share: its text, what overrides it, and what was found wrong.
#[derive(Debug)]
pub(super) struct Report<'t> {
    text: &'t str,
    overrides: &'t [Override],
    used: RefCell<BTreeSet<String>>,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str, overrides: &'t [Override]) -> Self {
        Self {
            text,
            overrides,
            used: RefCell::default(),
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    /// The file as a table; every error of its syntax is a problem, and then nothing else is read.
    pub(super) fn document(&self) -> Option<Section<'_, 't>> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        for error in errors.iter().take(MOST_SYNTAX_ERRORS) {
            let place = Place::File(error.span().unwrap_or_default());
            let fault = Fault::new(format!("this is not TOML: {}", error.message().replace('\n', ", ")), "");
            self.problem(&place, "", fault);
        }
        let place = Place::File(0..0);
        errors.is_empty().then(|| Section::new(self, "", "", true, place, document.into_inner()))
    }

    pub(super) fn problem(&self, place: &Place, key: &str, fault: Fault) {
        self.problems.borrow_mut().push(place.problem(self.text, key, fault));
    }

    pub(super) fn warning(&self, place: &Place, key: &str, fault: Fault) {
        self.warnings.borrow_mut().push(place.problem(self.text, key, fault));
    }

    /// The problems and the warnings, each in the file's order; overrides come first.
    pub(super) fn into_findings(self) -> (Vec<Problem>, Vec<Problem>) {
        let unused = overrides::unused(self.overrides, &self.used.into_inner());
        let (mut problems, mut warnings) = (self.problems.into_inner(), self.warnings.into_inner());
        warnings.extend(unused);
        problems.sort_by_key(|problem| problem.at);
        warnings.sort_by_key(|warning| warning.at);
        (problems, warnings)
    }

    /// What overrides this key. The last word counts: flags come after the environment.
    fn override_of(&self, path: &str) -> Option<&'t Override> {
        let variable = overrides::variable(path);
        let found = self.overrides.iter().rfind(|given| given.variable == variable)?;
        self.used.borrow_mut().insert(variable);
        Some(found)
    }
}

/// One table. Each key is taken once; [`Section::finish`] reports those nobody took.
#[derive(Debug)]
pub(super) struct Section<'r, 't> {
    report: &'r Report<'t>,
    /// As written: `server.survival`.
    path: String,
    /// As documented: `server.NAME`.
    documented: String,
    /// Whether it stands once in a file, so that a variable can name its keys.
    once: bool,
    place: Place,
    table: DeTable<'t>,
    /// The keys that were there, and where.
    taken: BTreeMap<&'static str, Place>,
}

impl<'r, 't> Section<'r, 't> {
    fn new(
        report: &'r Report<'t>,
        path: &str,
        documented: &str,
        once: bool,
        place: Place,
        table: DeTable<'t>,
    ) -> Self {
        let (path, documented) = (path.to_owned(), documented.to_owned());
        Self { report, path, documented, once, place, table, taken: BTreeMap::new() }
    }

    /// A text with its own grammar. A bare number is read as its text, so that the complaint is about what
    /// it lacks.
    pub(super) fn text<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        self.take(name, |value| {
            if let Some(text) = value.as_str() {
                return parse(text);
            }
            if let Some(number) = value.as_integer() {
                parse(number.as_str())?;
            }
            Err(not_a("text in quotes", value))
        })
    }

    pub(super) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        self.text(name, |text| match text {
            "" => Err(Fault::new("the path is empty", "write a path, or leave the key out")),
            path => Ok(PathBuf::from(path)),
        })
    }

    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&str, T)]) -> Option<T> {
        self.take(name, |value| match value.as_str() {
            Some(text) => value::choice(choices, text),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                Err(not_a(&format!("one of {}", value::quoted(&names)), value))
            }
        })
    }

    pub(super) fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.take(name, |value| value.as_bool().ok_or_else(|| not_a("true or false, without quotes", value)))
    }

    /// A whole number from `least` up.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, name: &'static str, least: u64) -> Option<T> {
        self.take(name, |value| {
            let digits = value.as_integer().ok_or_else(|| not_a("a whole number, without quotes", value))?;
            let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok();
            let number = number.filter(|number| (least..=MOST).contains(number)).map(T::try_from);
            number.and_then(Result::ok).ok_or_else(|| {
                let fix = format!("write a whole number from {least} to {MOST}");
                Fault::new(format!("{digits} is out of range"), fix)
            })
        })
    }

    /// How often, in the long run and at once.
    pub(super) fn rate(&mut self, rate: &'static str, burst: &'static str, base: Rate) -> Rate {
        Rate {
            every: self.text(rate, value::rate).unwrap_or(base.every),
            burst: self.number(burst, 1).unwrap_or(base.burst),
        }
    }

    /// A list of texts, or one text with commas or lines between its parts. Every bad part is reported.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Option<Vec<T>> {
        self.placed_list(name, parse).map(|list| list.into_iter().map(|(_, value)| value).collect())
    }

    /// As [`Section::list`], of addresses, which may have commas in them.
    pub(super) fn addresses<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Option<Vec<T>> {
        let parts = self.parts_by(name, value::addresses)?;
        Some(self.parsed(name, parts, parse).into_iter().map(|(_, value)| value).collect())
    }

    /// As [`Section::list`], with where each part stands.
    pub(super) fn placed_list<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Option<Vec<(Place, T)>> {
        let parts = self.parts(name)?;
        Some(self.parsed(name, parts, parse))
    }

    /// As [`Section::placed_list`]; that there is nothing in it is a problem.
    pub(super) fn filled_list<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Option<Vec<(Place, T)>> {
        let parts = self.parts(name)?;
        if parts.is_empty() {
            self.problem(name, Fault::new("is empty", "write at least one, or leave the key out"));
            return None;
        }
        Some(self.parsed(name, parts, parse))
    }

    /// A list of words, each taken as it is, or one text that a shell would split into them.
    pub(super) fn words(&mut self, name: &'static str) -> Option<Vec<String>> {
        let (value, place) = self.value(name)?;
        match value.as_str().map(value::words) {
            Some(Ok(words)) => Some(words),
            Some(Err(fault)) => {
                self.report.problem(&place, &self.key(name), fault);
                None
            }
            None => Some(self.strings(name, value, &place)?.into_iter().map(|(_, word)| word).collect()),
        }
    }

    /// A table of texts under names of the writer's own choosing.
    pub(super) fn map(&mut self, name: &'static str) -> Option<BTreeMap<String, String>> {
        self.take(name, |value| {
            let table =
                value.as_table().ok_or_else(|| not_a("a table such as { NAME = \"value\" }", value))?;
            let entries = table.iter().map(|(name, value)| {
                let (name, value) = (name.get_ref(), value.get_ref());
                let Fault { what, fix } = match value.as_str() {
                    Some(text) => return Ok((name.to_string(), text.to_owned())),
                    None => not_a("text in quotes", value),
                };
                Err(Fault::new(format!("{name:?} {what}"), fix))
            });
            entries.collect()
        })
    }

    /// A table below this one; an empty one if it is not there.
    pub(super) fn section(&mut self, name: &'static str) -> Section<'r, 't> {
        let documented = joined(&self.documented, name);
        self.section_as(name, &documented)
    }

    /// As [`Section::section`], for a table whose keys are documented as another's.
    pub(super) fn section_as(&mut self, name: &'static str, documented: &str) -> Section<'r, 't> {
        let path = self.key(name);
        let taken = self.written(name);
        let place = taken.as_ref().map_or_else(|| self.place.clone(), |(_, place)| place.clone());
        let table = taken.and_then(|(value, _)| self.table_or_problem(&path, value, &place));
        Section::new(self.report, &path, documented, self.once, place, table.unwrap_or_default())
    }

    /// The tables of an array of tables such as `[[listener]]`.
    pub(super) fn sections(&mut self, name: &'static str) -> Vec<Section<'r, 't>> {
        let path = self.key(name);
        let Some((value, place)) = self.written(name) else { return Vec::new() };
        let DeValue::Array(items) = value else {
            let what = format!("is {} where [[{path}]] is expected", kind(&value));
            self.report.problem(&place, &path, Fault::new(what, "write each between double brackets"));
            return Vec::new();
        };
        if items.is_empty() {
            self.report.problem(
                &place,
                &path,
                Fault::new("is empty", format!("write [[{path}]] and its keys below")),
            );
        }
        let mut sections = Vec::new();
        for item in items {
            let place = Place::File(item.span());
            if let Some(table) = self.table_or_problem(&path, item.into_inner(), &place) {
                sections.push(Section::new(self.report, &path, &path, false, place, table));
            }
        }
        sections
    }

    /// Every table of this one by its name, in the file's order.
    pub(super) fn named_sections(mut self, documented: &str) -> Vec<(String, Section<'r, 't>)> {
        let mut entries: Vec<_> = std::mem::take(&mut self.table).into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut sections = Vec::new();
        for (name, value) in entries {
            let place = Place::File(name.span());
            let name = name.into_inner().into_owned();
            let path = self.key(&shown(&name));
            if let Some(table) = self.table_or_problem(&path, value.into_inner(), &place) {
                sections.push((name, Section::new(self.report, &path, documented, false, place, table)));
            }
        }
        sections
    }

    /// Whether the key was there when it was taken, or still is.
    pub(super) fn has(&self, name: &str) -> bool {
        self.taken.contains_key(name) || self.table.contains_key(name)
    }

    /// Something is wrong with a key of this table, or, with no name, with the table.
    pub(super) fn problem(&self, name: &str, fault: Fault) {
        self.report.problem(self.place_of(name), &self.key(name), fault);
    }

    pub(super) fn problem_at(&self, place: &Place, name: &str, fault: Fault) {
        self.report.problem(place, &self.key(name), fault);
    }

    pub(super) fn warning(&self, name: &str, fault: Fault) {
        self.report.warning(self.place_of(name), &self.key(name), fault);
    }

    /// Takes a key only to say why it has no place here.
    pub(super) fn misplaced(&mut self, name: &str, fault: Fault) {
        if let Some((key, _)) = self.table.remove_entry(name) {
            self.report.problem(&Place::File(key.span()), &self.key(name), fault);
        }
    }

    /// Reports the keys that nobody took.
    pub(super) fn finish(self) {
        let here = keys::names(&self.documented, &self.path);
        for key in self.table.keys() {
            let name = key.get_ref();
            let fix = match (value::nearest(name, here.iter().copied()), keys::home_of(name)) {
                (Some(near), _) => format!("did you mean '{near}'?"),
                (None, Some(home)) => format!("it belongs in {home}"),
                (None, None) => format!("the keys here are {}", here.join(", ")),
            };
            let fault = Fault::new("there is no such key", fix);
            self.report.problem(&Place::File(key.span()), &self.key(&shown(name)), fault);
        }
    }

    fn take<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, Fault>,
    ) -> Option<T> {
        let (value, place) = self.value(name)?;
        match parse(&value) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.report.problem(&place, &self.key(name), fault);
                None
            }
        }
    }

    /// The parts of a list or text that are not blank.
    fn parts(&mut self, name: &'static str) -> Option<Vec<(Place, String)>> {
        self.parts_by(name, |text| value::parts(text).map(str::to_owned).collect())
    }

    fn parts_by(
        &mut self,
        name: &'static str,
        split: impl Fn(&str) -> Vec<String>,
    ) -> Option<Vec<(Place, String)>> {
        let (value, place) = self.value(name)?;
        let mut parts = match value.as_str() {
            Some(text) => split(text).into_iter().map(|part| (place.clone(), part)).collect(),
            None => self.strings(name, value, &place)?,
        };
        parts.retain(|(_, part)| !part.trim().is_empty());
        Some(parts)
    }

    fn parsed<T>(
        &self,
        name: &str,
        parts: Vec<(Place, String)>,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Vec<(Place, T)> {
        let parsed = parts.into_iter().filter_map(|(place, part)| match parse(part.trim()) {
            Ok(value) => Some((place, value)),
            Err(fault) => {
                self.problem_at(&place, name, fault);
                None
            }
        });
        parsed.collect()
    }

    /// The texts of a list; those that are none are reported.
    fn strings(&self, name: &str, value: DeValue<'t>, place: &Place) -> Option<Vec<(Place, String)>> {
        let DeValue::Array(items) = value else {
            self.report.problem(place, &self.key(name), not_a("a list of texts in quotes", &value));
            return None;
        };
        let strings = items.into_iter().filter_map(|item| {
            let place = match place {
                Place::File(_) => Place::File(item.span()),
                Place::Override(_) => place.clone(),
            };
            let text = item.get_ref().as_str().map(str::to_owned);
            if text.is_none() {
                self.report.problem(&place, &self.key(name), not_a("text in quotes", item.get_ref()));
            }
            text.map(|text| (place, text))
        });
        Some(strings.collect())
    }

    /// The value of a key, from whoever has the last word on it.
    fn value(&mut self, name: &'static str) -> Option<(DeValue<'t>, Place)> {
        debug_assert!(
            keys::documented(&joined(&self.documented, name)),
            "{name} of {} is not documented",
            self.path
        );
        let written = self.written(name);
        let given = if self.once { self.report.override_of(&self.key(name)) } else { None };
        let found = match given {
            Some(given) => Some((given.value(), Place::Override(given.origin.clone()))),
            None => written,
        };
        if let Some((_, place)) = &found {
            self.taken.insert(name, place.clone());
        }
        found
    }

    fn written(&mut self, name: &'static str) -> Option<(DeValue<'t>, Place)> {
        let (key, value) = self.table.remove_entry(name)?;
        // A table's own span is its header; its name is what an editor should jump to.
        let span = if value.get_ref().is_table() { key.span() } else { value.span() };
        Some((value.into_inner(), Place::File(span)))
    }

    fn table_or_problem(&self, path: &str, value: DeValue<'t>, place: &Place) -> Option<DeTable<'t>> {
        if let DeValue::Table(table) = value {
            return Some(table);
        }
        let what = format!("is {} where a table is expected", kind(&value));
        self.report.problem(place, path, Fault::new(what, format!("write [{path}] and its keys below")));
        None
    }

    fn place_of(&self, name: &str) -> &Place {
        self.taken.get(name).unwrap_or(&self.place)
    }

    fn key(&self, name: &str) -> String {
        joined(&self.path, name)
    }
}

fn joined(path: &str, name: &str) -> String {
    let dot = if path.is_empty() || name.is_empty() { "" } else { "." };
    format!("{path}{dot}{name}")
}

fn not_a(expected: &str, value: &DeValue<'_>) -> Fault {
    Fault::new(format!("is {}", kind(value)), format!("write {expected}"))
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A name from the file, safe to print and not endless.
fn shown(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}
