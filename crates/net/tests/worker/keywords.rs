//! What keywords match, as in Suricata 8.0.7.

use super::*;

/// The rules of these conditions, with a number each.
fn rules(header: &str, conditions: &[&str]) -> String {
    let rule =
        |(n, c): (usize, &&str)| format!("alert {header} (msg:\"x\"; {c} sid:{}; rev:1;)", n + 1);
    conditions.iter().enumerate().map(rule).collect::<Vec<String>>().join("\n")
}

/// The datagrams of these, by their place, with which a rule of each condition alerts.
fn alerts_on(datagrams: &[Vec<u8>], conditions: &[&str]) -> Vec<Vec<usize>> {
    let packets: Vec<Vec<u8>> = datagrams.iter().map(|d| udp((1, 200), (4000, 9999), d)).collect();
    let engine = engine(&rules("udp any any -> any any", conditions));
    let (lines, _) = read(&engine, &packets);
    let places = |sid| alerts_of(&lines, sid).into_iter().map(|n| n as usize - 1).collect();
    (1..=conditions.len() as u32).map(places).collect()
}

/// Suricata 8.0.7 alerts on the same first bytes, of 14 in all.
#[test]
fn depths_and_withins_by_a_variable_may_be_zero_or_below() {
    const FIRST: [u8; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 200, 255];
    let datagrams: Vec<Vec<u8>> =
        FIRST.iter().map(|b| [std::slice::from_ref(b), b"HabcHxyHzzH"].concat()).collect();
    let extract = "byte_extract:1,0,d;";
    let minus = "byte_math:bytes 1, offset 0, oper -, rvalue 5, result d;";
    let cases: [(&str, &str, &[u8]); 13] = [
        (extract, "content:\"H\"; depth:d;", &[2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 200, 255]),
        (extract, "content:!\"H\"; depth:d;", &[0, 1]),
        (extract, "content:\"H\"; offset:d; depth:d;", &[1, 3, 4, 5, 6, 7, 8, 9, 10]),
        (
            extract,
            "content:\"a\"; content:\"H\"; distance:-1; within:d;",
            &[4, 5, 6, 7, 8, 9, 10, 14, 200, 255],
        ),
        (minus, "content:\"H\"; depth:d;", &[0, 1, 2, 3, 4, 7, 8, 9, 10, 14, 200, 255]),
        (minus, "content:!\"H\"; depth:d;", &[5, 6]),
        (minus, "content:\"H\"; offset:1; depth:d;", &[0, 1, 2, 3, 6, 7, 8, 9, 10, 14, 200, 255]),
        (minus, "content:\"H\"; offset:d;", &[5, 6, 7, 8, 9, 10, 14]),
        (
            minus,
            "content:\"a\"; content:\"H\"; distance:0; within:d;",
            &[0, 1, 8, 9, 10, 14, 200, 255],
        ),
        (
            minus,
            "content:\"a\"; content:\"H\"; distance:d; within:3;",
            &[1, 2, 3, 5, 6, 7, 8, 9, 10],
        ),
        (minus, "content:\"a\"; content:\"H\"; distance:d; within:d;", &[0, 1, 2, 3, 7, 8, 9, 10]),
        (
            minus,
            "content:\"a\"; content:\"H\"; distance:-1; within:d;",
            &[0, 1, 2, 9, 10, 14, 200, 255],
        ),
        (extract, "content:\"a\"; content:\"H\"; distance:d; within:d;", &[2, 3, 4, 5, 6, 7, 8]),
    ];
    for (variable, contents, expected) in cases {
        let places = alerts_on(&datagrams, &[&format!("{variable} {contents}")]);
        let bytes: Vec<u8> = places[0].iter().map(|at| FIRST[*at]).collect();
        assert_eq!(bytes, expected, "{variable} {contents}");
    }
}
