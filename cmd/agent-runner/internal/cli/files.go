package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// MaxText is the maximum size of a prompt or of a file of messages, in bytes.
const MaxText = 32 << 20

// ReadMessages reads a JSON array of messages from a file, and checks each message.
func ReadMessages(path string) ([]abi.Message, error) {
	b, err := ReadFile(path, MaxText)
	if err != nil {
		return nil, err
	}
	var messages []abi.Message
	if _, err := abijson.Decode(b, &messages); err != nil {
		return nil, Usagef("%s: not messages: %v; want a JSON array such as [{\"role\": \"user\", \"content\": \"hi\"}]",
			path, err)
	}
	for i := range messages {
		if err := contract.CheckMessage(&messages[i]); err != nil {
			return nil, Usagef("%s: message %d: %v", path, i, err)
		}
	}
	return messages, nil
}

// ReadFile reads a file. It returns an error if the file has more than limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, Bare(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, Bare(err))
	case int64(len(b)) > limit:
		return nil, Usagef("%s: larger than %d bytes", path, limit)
	}
	return b, nil
}

// Bare returns the cause of a file error, without the operation and the path.
func Bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
