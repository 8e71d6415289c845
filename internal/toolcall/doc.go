// Package toolcall holds what the loop and tools share about one call of a tool: the parts of a
// streamed result, the answer to an interrupt, and the calls that clients run. Package host/tool has
// the part that authors of tools use.
package toolcall
