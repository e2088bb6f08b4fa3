//! Names of handlers.

use std::fmt;

/// The name of a handler in its pipeline. A string literal allocates nothing; with [`Name::auto`] the
/// name is generated from the handler's type.
///
/// ```
/// use waterwheel_channel::Name;
///
/// assert_eq!(Name::from("lines").to_string(), "lines");
/// ```
#[derive(Clone, Debug)]
pub struct Name {
    text: NameText,
}

/// The text of a name and the half of the codec it stands for. Three machine words, because each variant stores the
/// half beside the text: outside the enum it would take a fourth. A channel stores a name for each of its handlers.
#[derive(Clone, Debug)]
enum NameText {
    Literal(CodecHalf, &'static str),
    Made(CodecHalf, Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodecHalf {
    Whole,
    Decoder,
    Encoder,
}

impl CodecHalf {
    fn suffix(self) -> &'static str {
        match self {
            CodecHalf::Whole => "",
            CodecHalf::Decoder => "/decoder",
            CodecHalf::Encoder => "/encoder",
        }
    }
}

impl Name {
    /// Requests a name generated from the handler's type, such as `Echo#0`.
    #[must_use]
    pub const fn auto() -> Self {
        Self { text: NameText::Literal(CodecHalf::Whole, "") }
    }

    /// Returns the name of the inbound half of the codec with this name.
    pub(crate) fn decoder(self) -> Self {
        self.with_half(CodecHalf::Decoder)
    }

    /// Returns the name of the outbound half of the codec with this name.
    pub(crate) fn encoder(self) -> Self {
        self.with_half(CodecHalf::Encoder)
    }

    fn with_half(mut self, of: CodecHalf) -> Self {
        let (NameText::Literal(half, _) | NameText::Made(half, _)) = &mut self.text;
        *half = of;
        self
    }

    fn base(&self) -> &str {
        match &self.text {
            NameText::Literal(_, base) => base,
            NameText::Made(_, base) => base,
        }
    }

    fn half(&self) -> CodecHalf {
        let (NameText::Literal(half, _) | NameText::Made(half, _)) = &self.text;
        *half
    }

    /// True if both names are displayed as the same text, even if the codec suffix of one is part of the other's
    /// base.
    pub(crate) fn has_same_text(&self, other: &Name) -> bool {
        self.bytes().eq(other.bytes())
    }

    fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.base().bytes().chain(self.half().suffix().bytes())
    }

    pub(crate) fn is_auto(&self) -> bool {
        self.base().is_empty()
    }

    /// Returns a name made from a type's name, without path and generic parameters, and a number.
    pub(crate) fn of_type(type_name: &str, number: u32) -> Self {
        let plain = type_name.split('<').next().unwrap_or(type_name);
        let short = plain.rsplit("::").next().unwrap_or(plain);
        Self::from(format!("{short}#{number}"))
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        other.strip_suffix(self.half().suffix()).is_some_and(|base| base == self.base())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        (self.base(), self.half()) == (other.base(), other.half())
    }
}

impl Eq for Name {}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self { text: NameText::Literal(CodecHalf::Whole, name) }
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self { text: NameText::Made(CodecHalf::Whole, name.into()) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.base(), self.half().suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c03_the_halves_of_a_codec_have_names_of_their_own() {
        let (decoder, encoder) = (Name::from("http").decoder(), Name::from("http").encoder());
        assert!(decoder == *"http/decoder" && encoder == *"http/encoder");
        assert!(decoder != *"http" && decoder != encoder);
        assert_eq!(decoder.to_string(), "http/decoder");
        assert!(
            decoder.has_same_text(&Name::from("http/decoder")) && !decoder.has_same_text(&encoder)
        );
    }

    #[test]
    fn c03_a_generated_name_is_the_types_without_path_and_parameters() {
        assert_eq!(Name::of_type("app::codec::Lines<app::Utf8>", 3).to_string(), "Lines#3");
    }
}
