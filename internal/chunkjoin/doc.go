// Package chunkjoin joins the chunks of a stream into a message or a tool result. The result does
// not depend on how the stream was split. The package imports abi and abijson, but no package of
// the host.
package chunkjoin
