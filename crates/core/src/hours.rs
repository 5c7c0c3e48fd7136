//! Hours of the week in which a server is kept warm, in a time zone, daylight saving included.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;

/// Such as `mon-fri 18:00-23:00 Europe/Berlin`. Hours that end before they begin, or as they begin, go on past
/// midnight: `00:00-24:00` is the whole day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hours {
    /// First and last day, both included; around the week's end if the last comes first.
    days: Option<(Weekday, Weekday)>,
    from: Time,
    to: Time,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoursError {
    #[error(
        "hours are written as '18:00-23:00 Europe/Berlin', with days before if need be: 'mon-fri 18:00-23:00 Europe/Berlin'"
    )]
    Form,
    #[error("'{0}' is no time of the day; write it as 18:00")]
    Time(String),
    #[error("'{0}' is no day; write mon, tue, wed, thu, fri, sat or sun")]
    Day(String),
    #[error("'{0}' is no time zone; write it as Europe/Berlin or UTC")]
    Zone(String),
}

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

impl Hours {
    pub fn parse(text: &str) -> Result<Self, HoursError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (days, times, zone) = match words.as_slice() {
            // Days and hours; the zone has been left out.
            [days, _] if days.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                span_of_days(days)?;
                return Err(HoursError::Form);
            }
            [times, zone] => (None, *times, *zone),
            [days, times, zone] => (Some(span_of_days(days)?), *times, *zone),
            _ => return Err(HoursError::Form),
        };
        let (from, to) = times.split_once('-').ok_or(HoursError::Form)?;
        let (from, to) = (time(from)?, time(to)?);
        let zone = TimeZone::get(zone).map_err(|_| HoursError::Zone(zone.to_owned()))?;
        Ok(Self { days, from, to, zone })
    }

    pub fn cover(&self, now: Timestamp) -> bool {
        let local = self.zone.to_datetime(now);
        let (day, time) = (local.date().weekday(), local.time());
        if self.from < self.to {
            return self.on(day) && self.from <= time && time < self.to;
        }
        // Past midnight they belong to the day on which they began.
        (self.on(day) && self.from <= time) || (self.on(day.previous()) && time < self.to)
    }

    fn on(&self, day: Weekday) -> bool {
        self.days.is_none_or(|(first, last)| first.until(day) <= first.until(last))
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |day| DAYS.iter().find(|(_, known)| *known == day).map_or("", |(name, _)| *name);
        match self.days {
            Some((first, last)) if first == last => write!(f, "{} ", name(first))?,
            Some((first, last)) => write!(f, "{}-{} ", name(first), name(last))?,
            None => {}
        }
        let clock = |time: Time| format!("{:02}:{:02}", time.hour(), time.minute());
        write!(f, "{}-{} {}", clock(self.from), clock(self.to), self.zone.iana_name().unwrap_or("UTC"))
    }
}

fn span_of_days(text: &str) -> Result<(Weekday, Weekday), HoursError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok((day(first)?, day(last)?))
}

fn day(text: &str) -> Result<Weekday, HoursError> {
    let lower = text.to_ascii_lowercase();
    let known = DAYS.iter().find(|(name, _)| *name == lower);
    known.map(|(_, day)| *day).ok_or_else(|| HoursError::Day(text.to_owned()))
}

/// `24:00` is the day's end, which is the next one's beginning.
fn time(text: &str) -> Result<Time, HoursError> {
    let fault = || HoursError::Time(text.to_owned());
    if text == "24:00" {
        return Ok(Time::midnight());
    }
    let (hour, minute) = text.split_once(':').ok_or_else(fault)?;
    let (hour, minute) = (hour.parse().map_err(|_| fault())?, minute.parse().map_err(|_| fault())?);
    Time::new(hour, minute, 0, 0).map_err(|_| fault())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cover(hours: &str, at: &str) -> bool {
        Hours::parse(hours).unwrap().cover(at.parse().unwrap())
    }

    #[test]
    fn evenings_in_a_time_zone() {
        for (at, covered) in [
            ("2026-07-01T15:59:59Z", false),
            ("2026-07-01T16:00:00Z", true),
            ("2026-07-01T20:59:59Z", true),
            ("2026-07-01T21:00:00Z", false),
            // In winter the same hours are an hour later in UTC.
            ("2026-12-01T16:30:00Z", false),
            ("2026-12-01T17:00:00Z", true),
            ("2026-12-01T21:59:59Z", true),
        ] {
            assert_eq!(cover("18:00-23:00 Europe/Berlin", at), covered, "{at}");
        }
    }

    #[test]
    fn nights_belong_to_the_day_they_begin_on() {
        // 2026-07-03 is a Friday.
        for (at, covered) in [
            ("2026-07-03T21:59:00Z", false),
            ("2026-07-03T22:00:00Z", true),
            ("2026-07-04T01:59:00Z", true),
            ("2026-07-04T02:00:00Z", false),
            ("2026-07-04T23:00:00Z", true),
            ("2026-07-05T01:00:00Z", true),
            ("2026-07-05T23:00:00Z", false),
        ] {
            assert_eq!(cover("fri-sat 22:00-02:00 UTC", at), covered, "{at}");
        }
        assert!(cover("sat-mon 00:00-24:00 UTC", "2026-07-05T12:00:00Z"), "around the week's end");
        assert!(!cover("sat-mon 00:00-24:00 UTC", "2026-07-07T12:00:00Z"));
    }

    #[test]
    fn nights_over_a_change_of_the_clocks() {
        // Clocks go from 02:00 to 03:00 on 2026-03-29 in Berlin.
        assert!(cover("22:00-06:00 Europe/Berlin", "2026-03-29T03:59:00Z"));
        assert!(!cover("22:00-06:00 Europe/Berlin", "2026-03-29T04:00:00Z"));
    }

    #[test]
    fn what_is_written_is_what_is_shown() {
        for text in
            ["18:00-23:00 Europe/Berlin", "mon-fri 07:30-08:00 UTC", "sun 22:00-02:00 America/New_York"]
        {
            assert_eq!(Hours::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn faults_say_what_to_write() {
        for (text, fault) in [
            ("", HoursError::Form),
            ("18:00-23:00", HoursError::Form),
            ("18:00 UTC", HoursError::Form),
            ("18-23 UTC", HoursError::Time("18".to_owned())),
            ("25:00-26:00 UTC", HoursError::Time("25:00".to_owned())),
            ("mon-fry 18:00-23:00", HoursError::Day("fry".to_owned())),
            ("mon-fri 18:00-23:00", HoursError::Form),
            ("moo 18:00-23:00 UTC", HoursError::Day("moo".to_owned())),
            ("18:00-23:00 Mars/Olympus", HoursError::Zone("Mars/Olympus".to_owned())),
        ] {
            assert_eq!(Hours::parse(text), Err(fault), "{text}");
        }
    }
}
