// Package responses implements the protocol of OpenAI's Responses API.
//
// # Requests
//
// `instructions` is a message of [abi.RoleSystem], and an `input` that is a string is a user's message.
// The items of an `input` array become messages in their order:
//
//   - A message item is a message with its role.
//   - function_call and custom_tool_call items that follow each other are the calls of one assistant
//     message. Its content is the message item in front of them, and the opaque items in front of that.
//     Removing the message removes all of these items, so that no reasoning item is left without the
//     item that must follow it.
//   - function_call_output and custom_tool_call_output items are messages of [abi.RoleTool].
//   - All other items, such as reasoning, web_search_call, compaction, item_reference and
//     additional_tools, are opaque parts. They belong to a message of the item's own role if it has
//     one (additional_tools has developer), and otherwise to an assistant's message.
//
// The arguments of a custom tool are the object {"input": "…"}. A tool in a namespace other than
// "functions" is named "namespace.name", in the list of tools and in calls.
//
// Requests that refer to messages which the upstream stores are rejected, since modules cannot see
// them: previous_response_id, conversation, prompt, background.
//
// # Answers
//
// Modules see the text and the refusals of message items, and the calls that the client runs. These
// include local_shell_call, shell_call, apply_patch_call and computer_call, which are calls of tools
// named after the item (local_shell, …) with the item's own fields as arguments. Reasoning items and
// their summaries, and calls that the upstream runs, are not shown: they belong to encrypted content,
// or have already happened. Reasoning that modules write is omitted, because an upstream rejects the
// next request if it contains a reasoning item that the upstream has not made.
//
// A denied call becomes a message item with the reason, in its place, so that a reasoning item in
// front of it is still followed by an item. The response's status stays "completed". If a module
// removes the last item after a reasoning item, an empty message takes its place.
//
// A client may read each text and each call from any of the events that repeat it. An upstream whose
// events disagree is an error, since a module would judge another call than the one that runs.
package responses
