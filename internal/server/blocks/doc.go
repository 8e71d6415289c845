// Package blocks holds the list of modules that the operator blocks. [List] reads it from
// the store twice a second, so that a block takes effect on all servers within a second,
// and serves the operator's routes that change it.
package blocks
