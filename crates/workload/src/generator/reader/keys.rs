//! The keys that each kind of generator knows.

use super::Reader;
use crate::definition::{Generator, GeneratorKind};
use crate::validation::ValidationError;

impl Reader<'_> {
    /// Refuse keys that the kind does not look at: they are a mistake, not a decoration.
    pub fn refuse_what_has_no_meaning(&self) -> Result<(), ValidationError> {
        const RANGE: [&str; 8] =
            ["low", "high", "distribution", "exponent", "h", "mean", "deviation", "share"];
        let known: &[&str] = match self.generator.kind {
            GeneratorKind::Integer if self.generator.below.is_some() => {
                &["low", "below", "add", "distinct", "count", "max_count", "stop"]
            }
            GeneratorKind::Integer => {
                &["central", "rotation", "segment", "count", "max_count", "stop", "per"]
            }
            GeneratorKind::Decimal => &["central", "rotation", "scale", "count", "per"],
            GeneratorKind::Digits => &["groups", "length", "count", "per"],
            GeneratorKind::Text => &["length", "max_length", "count", "per"],
            GeneratorKind::Constant => &["value"],
            GeneratorKind::Derived => &["from", "plus", "times", "divisor", "least", "add"],
            GeneratorKind::Either => &["from", "otherwise", "share"],
            GeneratorKind::Motifs => {
                &["low", "high", "length", "deviation", "max_length", "uniqueness", "motif_length"]
            }
            GeneratorKind::Links => &["from", "high", "distribution", "types", "at_most", "split"],
            GeneratorKind::Tail => &["value", "column", "otherwise"],
            GeneratorKind::Child => &["first", "add"],
            GeneratorKind::Children | GeneratorKind::Iteration => &[],
            GeneratorKind::Answer => &["from", "value", "column", "default", "scale", "as", "row"],
            GeneratorKind::Computed => &["value", "scale"],
            GeneratorKind::Words => &["from", "words", "digits"],
            GeneratorKind::Sequence | GeneratorKind::Parent => &["first", "step", "every", "cycle"],
            GeneratorKind::Series => &["first", "step", "count"],
            GeneratorKind::Permutation => &["low", "high"],
        };
        let has_range =
            matches!(self.generator.kind, GeneratorKind::Integer | GeneratorKind::Decimal)
                && self.generator.below.is_none();
        for part in given(self.generator) {
            let has_meaning = known.contains(&part) || has_range && RANGE.contains(&part);
            if !has_meaning {
                let kind = format!("{:?}", self.generator.kind).to_lowercase();
                let message = format!("has no meaning where the kind is {kind}");
                return Err(ValidationError::new(self.at(part), message));
            }
        }
        Ok(())
    }
}

/// Return the keys that a generator has.
fn given(generator: &Generator) -> impl Iterator<Item = &'static str> {
    [
        ("low", generator.low.is_some()),
        ("high", generator.high.is_some()),
        ("distribution", generator.distribution.is_some()),
        ("exponent", generator.exponent.is_some()),
        ("h", generator.h.is_some()),
        ("mean", generator.mean.is_some()),
        ("deviation", generator.deviation.is_some()),
        ("share", generator.share.is_some()),
        ("central", generator.central.is_some()),
        ("rotation", generator.rotation.is_some()),
        ("below", generator.below.is_some()),
        ("distinct", generator.distinct.is_some()),
        ("segment", generator.segment.is_some()),
        ("groups", generator.groups.is_some()),
        ("length", generator.length.is_some()),
        ("max_length", generator.max_length.is_some()),
        ("scale", generator.scale.is_some()),
        ("value", generator.value.is_some()),
        ("as", generator.as_form.is_some()),
        ("row", generator.row.is_some()),
        ("words", generator.words.is_some()),
        ("digits", generator.digits.is_some()),
        ("per", generator.per.is_some()),
        ("column", generator.column.is_some()),
        ("default", generator.default.is_some()),
        ("from", generator.from.is_some()),
        ("plus", generator.plus.is_some()),
        ("times", generator.times.is_some()),
        ("first", generator.first.is_some()),
        ("step", generator.step.is_some()),
        ("every", generator.every.is_some()),
        ("cycle", generator.cycle.is_some()),
        ("divisor", generator.divisor.is_some()),
        ("least", generator.least.is_some()),
        ("add", generator.add.is_some()),
        ("otherwise", generator.otherwise.is_some()),
        ("uniqueness", generator.uniqueness.is_some()),
        ("motif_length", generator.motif_length.is_some()),
        ("types", generator.types.is_some()),
        ("at_most", generator.at_most.is_some()),
        ("split", generator.split.is_some()),
        ("count", generator.count.is_some()),
        ("max_count", generator.max_count.is_some()),
        ("stop", generator.stop.is_some()),
    ]
    .into_iter()
    .filter_map(|(part, is_given)| is_given.then_some(part))
}
