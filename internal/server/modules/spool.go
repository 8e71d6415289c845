package modules

import "os"

// newSpool opens a file for what comes. Where the system allows that it has no name any
// more: nothing of it is left when this process is killed.
func newSpool() (file *os.File, remove func(), err error) {
	if file, err = os.CreateTemp("", "agent-runner-upload-*"); err != nil {
		return nil, nil, err
	}
	if os.Remove(file.Name()) == nil {
		return file, func() { _ = file.Close() }, nil
	}
	return file, func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}, nil
}
