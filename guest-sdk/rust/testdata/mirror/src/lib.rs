//! A module for the tests of the golden vectors: each hook writes its decoded input,
//! answer_HOOK does the same with an answer, and other exports with other types.

use agent_middleware::*;

macro_rules! mirror {
    ($name:expr, $type:ty) => {
        const _: () = {
            #[export_name = $name]
            extern "C" fn mirror(len: i32) -> i32 {
                let value = host::pending(len).map(|text| <$type>::decode_json(&text));
                match value {
                    Ok(Ok(value)) => host::write(&value.encode_json()),
                    _ => return 1,
                }
                0
            }
        };
    };
}

macro_rules! mirror_hook {
    ($hook:ident, $input:ty, $answer:ty) => {
        mirror!(stringify!($hook), $input);
        mirror!(concat!("answer_", stringify!($hook)), $answer);
    };
}

each_hook!(mirror_hook);
mirror!("describe", Members);
mirror!("answer_describe", Description);
mirror!("error", Error);
mirror!("request_patch", RequestPatch);
mirror!("model_reply", ModelReply);
mirror!("call_patch", CallPatch);
mirror!("tool_reply", ToolReply);
mirror!("sent", Sent);
mirror!("received", Received);
