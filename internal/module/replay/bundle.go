// Package replay records hook calls and replays them, so that a fault can be reproduced on another
// machine.
//
// A [Recorder] records everything that determines a call's outcome. A [Bundle] is a fault with the
// recordings of its instance. A [Dir] stores the newest bundles as files. A [Player] answers a
// guest from a recording. Compare returns the differences between a replayed call and its
// recording. The package does not run guests. Package module does so, and imports this package.
package replay

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// A Bundle is a fault and everything that determined it, so that the fault can be reproduced on
// another machine. The bundle contains the data that the module received: its configuration, its
// inputs, which include the conversation, and the host's replies. Modules never receive API keys.
type Bundle struct {
	Version int           `json:"version"` // 1
	Time    time.Time     `json:"time"`
	Module  string        `json:"module"` // the name that it was loaded under
	Digest  string        `json:"digest"`
	Entry   string        `json:"entry"`
	Run     string        `json:"run"`
	Config  Blob          `json:"config"`
	Grants  []string      `json:"grants"`
	Limits  policy.Limits `json:"limits"`

	Fault Fault `json:"fault"`
	// Call is the call that faulted. Earlier are the earlier calls of the same instance in the run.
	// Dropped is the number of earlier calls that are missing.
	Call    Recording   `json:"call"`
	Earlier []Recording `json:"earlier,omitempty"`
	Dropped int         `json:"dropped,omitempty"`

	Wasm []byte `json:"-"`
}

// A Fault is the recorded report of a fault.
type Fault struct {
	Stage  ending.Stage `json:"stage"`
	Cause  string       `json:"cause"`
	Limit  string       `json:"limit,omitempty"`
	Value  int64        `json:"value,omitempty"`
	Stack  []string     `json:"stack,omitempty"`
	Stderr []string     `json:"stderr,omitempty"`
	// Judged is set if the module's call succeeded but the chain rejected its answer.
	Judged bool `json:"judged,omitempty"`
}

const (
	version    = 1
	suffix     = ".fault.zip"
	maxBundles = 100      // maximum number of bundles in a directory
	maxJSON    = 96 << 20 // maximum number of bytes of JSON read from a file
)

func (b *Bundle) encode(w io.Writer, module *PackedModule) error {
	z := zip.NewWriter(w)
	if err := module.write(z); err != nil {
		return err
	}
	text, err := abijson.Marshal(b)
	if err != nil {
		return err
	}
	part, err := z.CreateHeader(&zip.FileHeader{Name: "bundle.json", Method: zip.Deflate, Modified: b.Time})
	if err == nil {
		_, err = part.Write(text)
	}
	if err != nil {
		return err
	}
	return z.Close()
}

// Read reads a bundle from a file. The file is untrusted. Read returns an error if the file is
// malformed or too large, or if the module does not have the digest in the bundle.
func Read(path string) (*Bundle, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", path, err)
	}
	defer z.Close()
	b := &Bundle{}
	text, err := readPart(z, "bundle.json", maxJSON)
	if err == nil {
		err = b.decode(text)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read bundle %s: bundle.json: %w", path, err)
	case b.Version != version:
		return nil, fmt.Errorf("read bundle %s: version %d; this host knows version %d", path, b.Version, version)
	}
	if b.Wasm, err = readPart(z, "module.wasm", policy.MaxBytes); err != nil {
		return nil, fmt.Errorf("read bundle %s: module.wasm: %w", path, err)
	}
	if sum := sha256.Sum256(b.Wasm); hex.EncodeToString(sum[:]) != b.Digest {
		return nil, fmt.Errorf("read bundle %s: module.wasm has the SHA-256 %x, not %.64q", path, sum, b.Digest)
	}
	return b, nil
}

// decode decodes bundle.json. Bundles of earlier versions have the faulted call as "visit".
func (b *Bundle) decode(text []byte) error {
	var old struct {
		Bundle
		Visit *Recording `json:"visit"`
	}
	_, err := abijson.Decode(text, &old)
	if *b = old.Bundle; old.Visit != nil {
		b.Call = *old.Visit
	}
	return err
}

func readPart(z *zip.ReadCloser, name string, limit int64) ([]byte, error) {
	f, err := z.Open(name)
	if err != nil {
		return nil, errors.New("is missing; is this a bundle of a fault?")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("has more than %d bytes", limit)
	}
	return b, err
}
