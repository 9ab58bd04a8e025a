//! Clients publish their statement while a request is under way.

use std::sync::{Arc, Mutex};

use engine::statement_activity::StatementActivity;
use engine::{DriveSettings, End};

use super::server::{Answer, OK, Server, StatementScript, error};
use super::{drive, drive_scripts, settings};

#[test]
fn each_request_is_shown_while_it_is_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("activity");
    let shown = Arc::new(Mutex::new(Vec::new()));
    let (seen, place) = (Arc::clone(&shown), path.clone());
    let server = Server::new(move |asked| {
        let activity = StatementActivity::open(&place).unwrap();
        let statement = activity.shown(asked.client as usize);
        seen.lock().unwrap().push((asked.client, statement));
        // The first transaction of client 1 is rolled back and restarted.
        Answer::Bytes(if (asked.client, asked.number) == (1, 1) {
            error(1213)
        } else {
            OK.to_vec()
        })
    });
    let settings = DriveSettings {
        end: End::Operations(4),
        statement_activity: Some(path.clone()),
        ..settings(2, 1)
    };
    let script = |_| StatementScript::new(3).with_transactions(2);
    drive_scripts(&settings, &server, 3, &script);
    let shown = shown.lock().unwrap();
    let of = |client| {
        let all = shown.iter().filter(move |(who, _)| *who == client);
        all.map(|(_, statement)| *statement).collect::<Vec<_>>()
    };
    assert_eq!(of(0), [1, 2, 3, 1, 2, 3]);
    assert_eq!(of(1), [1, 2, 1, 2, 3, 1, 2, 3]);
    let activity = StatementActivity::open(&path).unwrap();
    assert_eq!(activity.names(), ["s0", "s1", "s2", "ROLLBACK"]);
    assert_eq!((activity.shown(0), activity.shown(1)), (0, 0));
}

#[test]
fn a_board_that_cannot_be_made_ends_the_drive() {
    let server = Server::answering(OK);
    let settings =
        DriveSettings { statement_activity: Some("/nowhere/activity".into()), ..settings(1, 1) };
    let message = drive(&settings, &server).unwrap_err().error.to_string();
    assert!(message.contains("cannot create the activity file /nowhere/activity"), "{message}");
}
