//! The distribution that a generator names, checked.

use super::definition::{Number, RandomNumber};
use super::validation::{ValidationError, refused};
use super::values::Values;
use datagen::distribution::Shape;

const NAMES: [&str; 8] =
    ["uniform", "zipf", "zipf-scrambled", "zipf-rotated", "latest", "pareto", "special", "normal"];

/// Compile the distribution of the random number that lies at `key`.
pub fn compile(
    random: &RandomNumber,
    values: &Values,
    key: &str,
) -> Result<Shape, ValidationError> {
    let name_key = format!("{key}.distribution");
    let name = values.fill(random.distribution.as_deref().unwrap_or("uniform"), &name_key)?;
    let real = |number: &Option<Number>, part: &str, default: f64, range: Limits| {
        let key = format!("{key}.{part}");
        let value = number.as_ref().map_or(Ok(default), |number| values.real(number, &key))?;
        range.check(value, &key)
    };
    let exponent = || real(&random.exponent, "exponent", 0.8, Limits::closed(0.0, 100.0));
    Ok(match name.as_str() {
        "uniform" => Shape::Uniform,
        "zipf" | "zipf-scrambled" => {
            Shape::Zipf { exponent: exponent()?, scrambled: name == "zipf-scrambled" }
        }
        "zipf-rotated" => {
            let seed = random.rotation.as_ref().unwrap_or(&Number::Integer(0));
            let seed = values.integer(seed, &format!("{key}.rotation"))?.cast_unsigned();
            Shape::ZipfRotated { exponent: exponent()?, seed }
        }
        "latest" => Shape::Latest { exponent: exponent()? },
        "pareto" => {
            let h = real(&random.h, "h", 0.2, Limits::open(0.0, 1.0))?;
            Shape::Pareto { power: h.ln() / (1.0 - h).ln() }
        }
        "special" => Shape::Special {
            share: real(&random.share, "share", 75.0, Limits::closed(0.0, 100.0))? / 100.0,
            central: real(&random.central, "central", 1.0, Limits::closed(0.0, 100.0))? / 100.0,
        },
        "normal" => Shape::Normal {
            mean: real(&random.mean, "mean", 0.5, Limits::closed(0.0, 1.0))?,
            // A wider bell is cut off so much that it would rather be uniform.
            deviation: real(&random.deviation, "deviation", 0.125, Limits::open(0.0, 2.0))?,
        },
        other => return Err(ValidationError::unknown(name_key, "distribution", other, NAMES)),
    })
}

/// The limits of a parameter: from the least to the greatest, the ends themselves included or not.
struct Limits {
    least: f64,
    greatest: f64,
    ends: bool,
}

impl Limits {
    fn closed(least: f64, greatest: f64) -> Self {
        Self { least, greatest, ends: true }
    }

    fn open(least: f64, greatest: f64) -> Self {
        Self { least, greatest, ends: false }
    }

    fn check(&self, value: f64, key: &str) -> Result<f64, ValidationError> {
        let is_end = value <= self.least || value >= self.greatest;
        if value >= self.least && value <= self.greatest && (self.ends || !is_end) {
            return Ok(value);
        }
        let (least, greatest) = (self.least, self.greatest);
        let wanted = if self.ends {
            format!("from {least} to {greatest}")
        } else {
            format!("between {least} and {greatest}")
        };
        refused(key, format!("{value} is not {wanted}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(
        distribution: &str,
        change: impl FnOnce(&mut RandomNumber),
    ) -> Result<Shape, String> {
        let number = serde_json::json!({"low": 1, "high": 9, "distribution": distribution});
        let mut number = serde_json::from_value(number).unwrap();
        change(&mut number);
        compile(&number, &Values::default(), "generators.id").map_err(|m| m.to_string())
    }

    #[test]
    fn parameters_and_their_defaults() {
        assert_eq!(compiled("zipf", |_| ()), Ok(Shape::Zipf { exponent: 0.8, scrambled: false }));
        let scrambled = compiled("zipf-scrambled", |g| g.exponent = Some(Number::Integer(1)));
        assert_eq!(scrambled, Ok(Shape::Zipf { exponent: 1.0, scrambled: true }));
        let Ok(Shape::Pareto { power }) = compiled("pareto", |_| ()) else { panic!("no Pareto") };
        assert!((power - 7.2126).abs() < 1e-4);
        assert_eq!(compiled("special", |_| ()), Ok(Shape::Special { share: 0.75, central: 0.01 }));
    }

    #[test]
    fn mistakes_name_their_key() {
        let minus = |number: &mut RandomNumber| number.exponent = Some(Number::Integer(-1));
        let one = |number: &mut RandomNumber| number.h = Some(Number::Integer(1));
        for (found, expected) in [
            (
                compiled("zipfian", |_| ()),
                r#"distribution: unknown distribution "zipfian"; did you"#,
            ),
            (compiled("zipf", minus), "exponent: -1 is not from 0 to 100"),
            (compiled("pareto", one), "h: 1 is not between 0 and 1"),
        ] {
            let mistake = found.unwrap_err();
            let mistake = mistake.strip_prefix("generators.id.").unwrap();
            assert!(mistake.starts_with(expected), "{mistake}");
        }
        assert!(compiled("normal", |g| g.mean = Some(Number::Float(f64::NAN))).is_err());
    }
}
