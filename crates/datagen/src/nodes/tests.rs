use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// The columns of a row, as a reader of the file sees them.
struct Row {
    id: u64,
    lat: f64,
    lon: f64,
    version: u32,
    timestamp: String,
    changeset: u64,
    uid: u64,
    user: String,
}

fn text(nodes: &Nodes, from: u64, to: u64) -> String {
    let mut out = vec![0; nodes.room_for(usize::try_from(to - from).unwrap())];
    let length = nodes.write(from, to, &mut out);
    out.truncate(length);
    String::from_utf8(out).expect("rows are UTF-8")
}

fn rows(nodes: &Nodes, from: u64, to: u64) -> Vec<Row> {
    text(nodes, from, to).lines().map(row).collect()
}

fn row(line: &str) -> Row {
    let columns: Vec<&str> = line.split('\t').collect();
    let [id, lat, lon, version, timestamp, changeset, uid, user] = columns[..] else {
        panic!("{line:?} has {} columns", columns.len());
    };
    for degrees in [lat, lon] {
        let decimals = degrees.split_once('.').map(|(_, decimals)| decimals.len());
        assert_eq!(decimals, Some(7), "{line}");
    }
    assert!(!lon.starts_with("-0.0000000"), "a server would print {lon} without its sign");
    Row {
        id: id.parse().unwrap(),
        lat: lat.parse().unwrap(),
        lon: lon.parse().unwrap(),
        version: version.parse().unwrap(),
        timestamp: timestamp.to_owned(),
        changeset: changeset.parse().unwrap(),
        uid: uid.parse().unwrap(),
        user: user.to_owned(),
    }
}

/// If this fails, the content has changed: raise `VERSION`. Otherwise stored results of the old
/// content would be compared with results of the new one.
#[test]
fn the_content_is_the_one_its_version_names() {
    assert_eq!(VERSION, "nodes-1");
    assert_eq!(
        text(&Nodes::new(5, 1), 0, 5),
        "3350923545\t36.4852846\t-2.5891211\t2\t2016-11-01 00:00:00\t43400000\t3192657\tllanogeo\n\
         3377486994\t36.4844268\t-2.6041790\t1\t2007-01-03 14:10:24\t10780\t3093871\tGor434\n\
         3684442411\t36.4800054\t-2.5968229\t1\t2007-01-03 14:10:24\t10780\t3093871\tGor434\n\
         3989395029\t36.4836544\t-2.5851483\t1\t2007-01-03 14:10:24\t10780\t3093871\tGor434\n\
         4224355065\t36.4632079\t-2.5825433\t1\t2007-01-03 14:10:24\t10780\t3093871\tGor434\n"
    );
    let published = Nodes::new(46_741_126, 171_773);
    let parts = [0, 20_000_000, 46_741_126 - 5_000];
    let sums = parts.map(|from| crc32fast::hash(text(&published, from, from + 5_000).as_bytes()));
    assert_eq!(sums, [2_026_986_216, 3_810_119_653, 263_144_592]);
}

#[test]
fn ids_look_like_the_published_ones() {
    let nodes = Nodes::new(46_741_126, 171_773);
    let first = rows(&nodes, 0, 1)[0].id;
    let last = rows(&nodes, 46_741_125, 46_741_126)[0].id;
    assert!((100_000..200_000).contains(&first), "{first}");
    assert!((4_480_000_000..4_490_000_000).contains(&last), "{last}");
}

#[test]
fn the_largest_set_keeps_ids_in_a_signed_number_and_rows_in_their_room() {
    let nodes = Nodes::new(MAX_ROWS, 3);
    let end = rows(&nodes, MAX_ROWS - 10_000, MAX_ROWS);
    assert_eq!(end.len(), 10_000);
    assert!(i64::try_from(end[9_999].id).is_ok());
}

#[test]
fn rows_are_about_79_bytes_long_at_every_size() {
    for count in [1_000, 1_000_000, 46_741_126] {
        let nodes = Nodes::new(count, 171_773);
        let samples = 20;
        let bytes: usize = (0..samples)
            .map(|sample| {
                let from = count / samples * sample;
                text(&nodes, from, from + 50).len()
            })
            .sum();
        let mean = bytes / usize::try_from(samples).unwrap();
        assert!((50 * 77..50 * 82).contains(&mean), "{count} rows: {mean} / 50");
    }
}

#[test]
fn few_users_make_most_of_the_map() {
    let mut activity = HashMap::new();
    for row in rows(&Nodes::new(200_000, 5), 0, 200_000) {
        *activity.entry(row.user).or_insert(0u32) += 1;
    }
    let mut counts: Vec<u32> = activity.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let tenth: u32 = counts[..counts.len() / 10].iter().sum();
    assert!(counts.len() > 3_000 && tenth > 70_000, "{} users, {tenth} rows", counts.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_are_valid_and_consistent(count in 1u64..100_000_000, seed: u64, at in 0.0..1.0) {
        #[allow(clippy::cast_sign_loss)]
        let from = (count as f64 * at) as u64;
        let to = count.min(from + 300);
        let nodes = Nodes::new(count, seed);
        let mut rows = rows(&nodes, from, to);
        prop_assert_eq!(rows.len() as u64, to - from);
        prop_assert!(rows.windows(2).all(|pair| pair[0].id < pair[1].id), "ids ascend");
        let mut names = HashMap::new();
        for row in &rows {
            prop_assert!((27.0..44.5).contains(&row.lat) && (-19.0..4.5).contains(&row.lon));
            prop_assert!((1..=38).contains(&row.version));
            prop_assert!(("2007-01-01 00:00:00"..="2016-11-01 00:00:00").contains(&row.timestamp.as_str()));
            prop_assert_eq!(names.entry(row.uid).or_insert(&row.user), &&row.user);
        }
        rows.sort_by(|a, b| a.timestamp.cmp(&b.timestamp));
        prop_assert!(rows.windows(2).all(|pair| pair[0].changeset <= pair[1].changeset));
    }
}
