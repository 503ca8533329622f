//! Text: its encoding, its line ends, and the languages known by how they begin.

use std::borrow::Cow;

/// How a text of a language begins, after white space and in any case; what is put before its
/// encoding, and after it.
const LANGUAGES: &[(&str, &str, &str)] = &[
    ("<?xml", "XML 1.0 document, ", ""),
    ("<!doctype html", "HTML document, ", ""),
    ("<html", "HTML document, ", ""),
    ("<head", "HTML document, ", ""),
    ("<script", "HTML document, ", ""),
    ("<title", "HTML document, ", ""),
    ("<body", "HTML document, ", ""),
    ("<svg", "SVG Scalable Vector Graphics image, ", ""),
    ("<?php", "PHP script, ", ""),
    ("#!/bin/sh", "POSIX shell script, ", " executable"),
    ("#!/bin/bash", "Bourne-Again shell script, ", " executable"),
    ("#!/usr/bin/env bash", "Bourne-Again shell script, ", " executable"),
    ("#!/usr/bin/perl", "Perl script text executable, ", ""),
    ("#!/usr/bin/env python", "Python script, ", " executable"),
    ("#!/usr/bin/python", "Python script, ", " executable"),
    ("@echo off", "DOS batch file, ", ""),
    ("received:", "SMTP mail, ", ""),
    ("return-path:", "SMTP mail, ", ""),
    ("begin:vcard", "vCard visiting card, ", ""),
    ("begin:vcalendar", "vCalendar calendar file, ", ""),
];

/// Lines longer than this are very long (libmagic's).
const LONG_LINE: usize = 300;

fn encoding(head: &[u8], is_whole: bool) -> Option<&'static str> {
    // As libmagic: printable, and the controls that text has.
    let is_text = |b: &u8| matches!(b, 7..=13 | 27 | 32..=126 | 128..);
    if head.starts_with(&[0xff, 0xfe]) {
        return Some("Unicode text, UTF-16, little-endian text");
    }
    if head.starts_with(&[0xfe, 0xff]) {
        return Some("Unicode text, UTF-16, big-endian text");
    }
    if !head.iter().all(is_text) {
        return None;
    }
    if head.is_ascii() {
        return Some("ASCII text");
    }
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // A character cut by the end of what is examined.
        Err(e) => e.error_len().is_none() && !is_whole,
    };
    if is_utf8 {
        let with_mark = head.starts_with(&[0xef, 0xbb, 0xbf]);
        return Some(if with_mark {
            "Unicode text, UTF-8 (with BOM) text"
        } else {
            "Unicode text, UTF-8 text"
        });
    }
    let is_latin = !head.iter().any(|b| (128..160).contains(b));
    Some(if is_latin { "ISO-8859 text" } else { "Non-ISO extended-ASCII text" })
}

/// What a text is; nothing when it is none.
pub(super) fn describe(head: &[u8], is_whole: bool) -> Option<Cow<'static, str>> {
    let encoding = encoding(head, is_whole)?;
    let begin = head.trim_ascii_start();
    let language = LANGUAGES.iter().find(|(sign, ..)| {
        begin.get(..sign.len()).is_some_and(|b| b.eq_ignore_ascii_case(sign.as_bytes()))
    });
    let (before, behind) = language.map_or(("", ""), |(_, before, behind)| (*before, *behind));
    let mut said = format!("{before}{encoding}{behind}");
    let longest = head.split(|b| matches!(b, b'\n' | b'\r')).map(<[u8]>::len).max();
    if let Some(longest) = longest.filter(|n| *n > LONG_LINE) {
        said.push_str(&format!(", with very long lines ({longest})"));
    }
    let count = |of: &[u8]| memchr::memmem::find_iter(head, of).count();
    let (pairs, lf, cr) = (count(b"\r\n"), count(b"\n"), count(b"\r"));
    let ends = [(pairs, "CRLF"), (cr - pairs, "CR"), (lf - pairs, "LF")];
    let kinds: Vec<&str> = ends.iter().filter(|(n, _)| *n > 0).map(|(_, name)| *name).collect();
    match kinds.as_slice() {
        [] if is_whole => said.push_str(", with no line terminators"),
        [] | ["LF"] => {}
        kinds => said.push_str(&format!(", with {} line terminators", kinds.join(", "))),
    }
    Some(said.into())
}
