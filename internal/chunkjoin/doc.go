// Package chunkjoin joins the chunks of a stream to a message or to a tool result. It
// guarantees that the chunks of a message, however they are split, join to the same
// content. It imports abi and abijson, and nothing of the host.
package chunkjoin
