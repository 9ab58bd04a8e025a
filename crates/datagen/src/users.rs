//! The users of the map: a fixed set with numbers and names, the same for every seed.

use std::collections::HashSet;

use super::counter::{Stream, scale};

/// The number of users; a power of two, so that a rank is a few bits of a random number.
pub const COUNT: usize = 1 << RANK_BITS;
pub const RANK_BITS: u32 = 14;

const FIRST_NAMES: [&str; 48] = [
    "Agustín", "Aitor", "Alba", "Álvaro", "Ana", "Andrés", "Begoña", "Carles", "Carmen", "César",
    "Cristina", "Daniel", "Diego", "Elena", "Enric", "Fermín", "Gerard", "Gorka", "Héctor", "Inés",
    "Íñigo", "Iván", "Javier", "Joan", "Jordi", "José", "Juan", "Laia", "Lucía", "Luis", "Manel",
    "María", "Martín", "Miguel", "Montse", "Núria", "Óscar", "Pablo", "Pau", "Pedro", "Ramón",
    "Raúl", "Rubén", "Sergio", "Sofía", "Tomàs", "Xavi", "Xosé",
];

const SURNAMES: [&str; 40] = [
    "Álvarez", "Aguirre", "Alonso", "Bonet", "Cano", "Castro", "Delgado", "Díaz", "Domínguez",
    "Echeverría", "Fernández", "Ferrer", "Fuentes", "García", "Gómez", "Ibáñez", "Iglesias",
    "Jiménez", "López", "Marín", "Martí", "Muñoz", "Navarro", "Núñez", "Ortega", "Ortiz", "Peña",
    "Pérez", "Puig", "Ramírez", "Roca", "Ruiz", "Sánchez", "Serra", "Soler", "Suárez", "Torres",
    "Vázquez", "Vidal", "Yáñez",
];

const WORDS: [&str; 48] = [
    "atlas", "barranco", "bici", "brujula", "calle", "camino", "carto", "cima", "costa", "cumbre",
    "duna", "ermita", "faro", "fuente", "geo", "gps", "huella", "isla", "lince", "llano", "mapa",
    "mar", "marea", "molino", "monte", "montaña", "norte", "nube", "oso", "pico", "pixel", "playa",
    "pueblo", "ruta", "senda", "sierra", "sol", "sur", "tejo", "trail", "track", "trazo", "valle",
    "vereda", "vega", "viento", "volcan", "zorro",
];

#[rustfmt::skip]
const OTHER_SCRIPTS: [&str; 16] = [
    "Александр", "Владимир", "Дмитрий", "Наталья", "Сергей", "Юлия",
    "Γιώργος", "Νίκος", "Ελένη", "محمد", "يوسف", "地図太郎", "小林", "王小明", "李娜", "김민준",
];

/// The last two columns of a user's rows as text: `uid`, tab, name, newline.
#[derive(Clone, Copy)]
pub struct User {
    text: [u8; User::CAPACITY],
    length: u8,
}

impl User {
    /// Room for a number of eight digits, a tab, the longest name and a newline.
    pub const CAPACITY: usize = 64;

    /// Return the text and its length; the bytes after it, up to the capacity, are undefined.
    #[inline]
    pub fn padded(&self) -> (&[u8; Self::CAPACITY], usize) {
        (&self.text, usize::from(self.length))
    }

    fn new(uid: u64, name: &str) -> Self {
        let row_end = format!("{uid}\t{name}\n");
        let mut text = [0; Self::CAPACITY];
        text[..row_end.len()].copy_from_slice(row_end.as_bytes());
        let length = u8::try_from(row_end.len()).expect("a name is limited");
        Self { text, length }
    }
}

/// Return all users, the most active first.
pub fn community() -> Vec<User> {
    let draws = Stream::named(0, "users");
    let mut taken = HashSet::with_capacity(COUNT);
    (0..COUNT as u64)
        .map(|rank| {
            let name = (0..63)
                .map(|attempt| name(draws.at(rank * 64 + attempt)))
                .find(|name| taken.insert(name.clone()))
                .expect("names do not run out");
            // Numbers follow the order of registration, which accelerated; early users need not be
            // the active ones.
            let order = rank.wrapping_mul(0x9e37_79b1) % COUNT as u64;
            let uid = 20 + order * (order + 200) / 59 + draws.at(rank * 64 + 63) % 3;
            User::new(uid, &name)
        })
        .collect()
}

fn name(random: u64) -> String {
    let pick = |shift: u32, from: &[&str]| {
        from[usize::try_from(scale(random >> shift, 12, from.len() as u64)).unwrap_or(0)].to_owned()
    };
    let first = pick(8, &FIRST_NAMES);
    let last = pick(20, &SURNAMES);
    let word = pick(32, &WORDS);
    let number = (random >> 44) % 1_000;
    match random % 32 {
        0..=4 => format!("{}{}", plain(&first), number % 100),
        5..=9 => format!("{}{}", plain(&first), beginning(&plain(&last), 1)),
        10..=12 => format!("{}{}", beginning(&plain(&first), 1), plain(&last)),
        13..=17 => format!("{word}{}", number % 100),
        18..=21 => format!("{}{number}", beginning(&first, 3)),
        22 => format!("{}_{word}", plain(&first)),
        23 => format!("{first} {last}"),
        24..=25 => format!("{first}{number}"),
        26 => format!("{} {word}", plain(&last)),
        27..=28 => format!("{}-{number}", plain(&last)),
        29 => format!("{word}{}", pick(50, &WORDS)),
        30 => format!("{}.{}{}", plain(&first), plain(&last), number % 10),
        _ => format!("{}{}", pick(50, &OTHER_SCRIPTS), number % 100),
    }
}

/// Return the name in lower case without accents, as in many logins.
fn plain(name: &str) -> String {
    name.to_lowercase()
        .chars()
        .map(|letter| match letter {
            'á' | 'à' => 'a',
            'é' => 'e',
            'í' => 'i',
            'ó' => 'o',
            'ú' => 'u',
            'ñ' => 'n',
            other => other,
        })
        .collect()
}

fn beginning(name: &str, letters: usize) -> String {
    name.chars().take(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<(String, String)> {
        community()
            .iter()
            .map(|user| {
                let (bytes, length) = user.padded();
                let text = str::from_utf8(&bytes[..length]).unwrap();
                let (uid, name) = text.strip_suffix('\n').unwrap().split_once('\t').unwrap();
                (uid.to_owned(), name.to_owned())
            })
            .collect()
    }

    #[test]
    fn numbers_and_names_are_unique() {
        let users = texts();
        assert_eq!(users.len(), COUNT);
        assert_eq!(users.iter().map(|u| &u.0).collect::<HashSet<_>>().len(), COUNT);
        assert_eq!(users.iter().map(|u| &u.1).collect::<HashSet<_>>().len(), COUNT);
    }

    #[test]
    fn names_need_no_escapes_and_fit() {
        for (_, name) in texts() {
            assert!(!name.is_empty() && name.len() <= 32, "{name}");
            assert!(name.trim() == name, "{name}");
            assert!(!name.contains(['\t', '\n', '\r', '\\', '\0', '"', '\'']), "{name}");
            assert!(name.chars().all(|c| c.len_utf8() < 4), "{name}: utf8mb3 must hold it");
        }
    }

    #[test]
    fn the_community_is_a_mixed_one() {
        let names: Vec<String> = texts().into_iter().map(|user| user.1).collect();
        let accented = names.iter().filter(|name| name.contains(['í', 'é', 'ñ', 'ú'])).count();
        let spaced = names.iter().filter(|name| name.contains(' ')).count();
        let cyrillic = names.iter().filter(|n| n.chars().any(|c| ('А'..='я').contains(&c))).count();
        assert!(accented > 500 && spaced > 500 && cyrillic > 50, "{accented} {spaced} {cyrillic}");
    }
}
