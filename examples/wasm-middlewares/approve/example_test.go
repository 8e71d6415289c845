//go:build !wasip1

package main

import (
	"testing"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/conversation"
)

func TestConversations(t *testing.T) { conversation.Test(t) }
