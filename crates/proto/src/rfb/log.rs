//! EVE records of RFB.

use super::tx::{Framebuffer, RfbTx, Version};
use gabion_record::json::Json;

/// Security type of VNC's own authentication.
const VNC: u32 = 2;

/// Writes the record.
pub(super) fn write(tx: &RfbTx, json: &mut Json) {
    write_version("server_protocol_version", tx.server_version, json);
    write_version("client_protocol_version", tx.client_version, json);
    json.open_key("authentication");
    if let Some(security_type) = tx.security_type {
        json.number("security_type", security_type);
        if security_type == VNC {
            json.open_key("vnc");
            for (key, bytes) in [("challenge", tx.challenge), ("response", tx.response)] {
                if let Some(bytes) = bytes {
                    json.hex(key, &bytes);
                }
            }
            json.close();
        }
    }
    if tx.is_accepted {
        json.field_plain("security_result", "OK");
    }
    json.close();
    if let Some(reason) = &tx.failure {
        json.field("server_security_failure_reason", reason);
    }
    if let Some(is_shared) = tx.is_shared {
        json.boolean("screen_shared", is_shared);
    }
    if let Some(framebuffer) = &tx.framebuffer {
        write_framebuffer(framebuffer, json);
    }
}

fn write_version(key: &str, version: Option<Version>, json: &mut Json) {
    let Some([major, minor]) = version else { return };
    json.open_key(key);
    json.field("major", major);
    json.field("minor", minor);
    json.close();
}

fn write_framebuffer(framebuffer: &Framebuffer, json: &mut Json) {
    json.open_key("framebuffer");
    json.number("width", framebuffer.width);
    json.number("height", framebuffer.height);
    json.field("name", &framebuffer.name);
    let p = &framebuffer.pixel_format;
    json.open_key("pixel_format");
    json.number("bits_per_pixel", p[0]);
    json.number("depth", p[1]);
    json.boolean("big_endian", p[2] != 0);
    json.boolean("true_color", p[3] != 0);
    json.number("red_max", u16::from_be_bytes([p[4], p[5]]));
    json.number("green_max", u16::from_be_bytes([p[6], p[7]]));
    json.number("blue_max", u16::from_be_bytes([p[8], p[9]]));
    json.number("red_shift", p[10]);
    json.number("green_shift", p[11]);
    json.number("blue_shift", p[12]);
    json.close();
    json.close();
}
