//! How the gate knows again what it made: the comment of a DNS record, the tag of an Access application.

/// What this gate writes on what it makes for one tunnel. Others of the same account write other marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// On a record that is ours. At most 100 characters, which every plan of Cloudflare's allows.
    pub comment: String,
    /// On a record that was ours and stays, since nobody asked for its removal.
    pub released: String,
    /// On an application that is ours.
    pub tag: String,
}

const OURS: &str = "managed-by=swarmgate ";
const RELEASED: &str = "released-by=swarmgate ";
const TAG: &str = "swarmgate-";

impl Marks {
    pub fn new(instance: &str, tunnel: &str) -> Self {
        let tunnel: String = tunnel.chars().take(8).collect();
        let whose = format!("instance={instance} tunnel={tunnel}");
        Self {
            comment: format!("{OURS}{whose}"),
            released: format!("{RELEASED}{whose}"),
            tag: format!("{TAG}{instance}-{tunnel}"),
        }
    }

    /// The mark of another gate, for people: `instance=b tunnel=12345678`.
    pub fn of_another<'c>(&self, comment: &'c str) -> Option<&'c str> {
        comment.strip_prefix(OURS).filter(|_| comment != self.comment)
    }

    /// Whether it is the tag of this or of another gate.
    pub fn is_tag(tag: &str) -> bool {
        tag.starts_with(TAG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_gates_apart_and_are_short_enough() {
        let tunnel = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
        let marks = Marks::new(&"x".repeat(32), tunnel);
        assert!(marks.comment.len() <= 100 && marks.released.len() <= 100, "{marks:?}");
        let (one, two) = (Marks::new("a", tunnel), Marks::new("b", tunnel));
        assert_eq!(one.comment, "managed-by=swarmgate instance=a tunnel=f70ff985");
        assert_eq!(one.of_another(&two.comment), Some("instance=b tunnel=f70ff985"));
        assert_eq!((one.of_another(&one.comment), one.of_another("by hand")), (None, None));
        assert_eq!(one.of_another(&two.released), None);
    }
}
