// Package toolcall has the state of one tool call that the loop and tools share: the parts of a
// streamed result, the answer to an interrupt, and the calls that clients run. Package host/tool
// has the part that authors of tools use.
package toolcall
