package javascript

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits on what findWorkspace reads, because a project can be hostile.
const (
	maxManifest   = 1 << 20 // bytes of a package.json
	maxPatterns   = 100
	maxComponents = 20     // components of a pattern
	maxEntries    = 10_000 // entries of folders that are compared with patterns
	maxMembers    = 1_000
)

// A Workspace is the npm workspace to which a script's project belongs. npm installs the
// dependencies of all members in the node_modules of the workspace.
type Workspace struct {
	Root string `json:"root"` // the folder whose package.json has workspaces
	// Members are the folders of the packages, without symbolic links. They are below Root.
	Members []string `json:"members"`
}

// findWorkspace returns the workspace of the project in the folder root, or nil if the project
// belongs to none. As in npm, this is the nearest folder above root whose package.json lists root
// in its workspaces. The path root must not contain symbolic links. The search ends at a folder
// that users share, such as /tmp, because anyone can write a package.json there.
func findWorkspace(root string) *Workspace {
	for dir := filepath.Dir(root); !isShared(dir); dir = filepath.Dir(dir) {
		w := &Workspace{Root: dir, Members: members(dir)}
		if slices.Contains(w.Members, root) {
			return w
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return nil
}

// isShared reports whether several users can write to a folder without removing each other's files,
// or the folder cannot be read.
func isShared(dir string) bool {
	info, err := os.Stat(dir)
	return err != nil || info.Mode()&fs.ModeSticky != 0
}

// members returns the folders of the packages that a package.json in dir lists as workspaces. It
// omits those that a pattern after "!" excludes.
func members(dir string) []string {
	text, err := readRegular(filepath.Join(dir, "package.json"), maxManifest)
	if err != nil {
		return nil
	}
	all := patterns(text)
	e := expansion{root: dir, found: map[string]bool{}, entries: maxEntries}
	for _, pattern := range all[:min(len(all), maxPatterns)] {
		pattern, e.excludes = strings.CutPrefix(pattern, "!")
		pattern = path.Clean(strings.Trim(pattern, "/"))
		components := strings.Split(pattern, "/")
		if pattern != "." && filepath.IsLocal(filepath.FromSlash(pattern)) && len(components) <= maxComponents {
			e.expand(dir, components)
		}
	}
	return slices.Sorted(maps.Keys(e.found))
}

// An expansion collects the folders that patterns match. It does not follow symbolic links.
type expansion struct {
	root     string // the folder of the workspace, which is not a member
	found    map[string]bool
	excludes bool // whether the current pattern excludes the folders that it matches
	entries  int  // number of entries that may still be compared
}

// expand compares the components of a pattern with the folders in dir, and adds the folders that
// match.
func (e *expansion) expand(dir string, components []string) {
	if len(components) == 0 {
		e.add(dir)
		return
	}
	first, rest := components[0], components[1:]
	if !strings.ContainsAny(first, `*?[\`) {
		sub := filepath.Join(dir, first)
		if info, err := os.Lstat(sub); err == nil && info.IsDir() {
			e.expand(sub, rest)
		}
		return
	}
	if first == "**" {
		e.expand(dir, rest)
		rest = components
	}
	for _, name := range e.folders(dir) {
		if ok, _ := path.Match(first, name); ok {
			e.expand(filepath.Join(dir, name), rest)
		}
	}
}

// add adds a folder that a pattern matches, or removes it if the pattern excludes. It ignores
// folders without a package.json, and does not add more than maxMembers folders.
func (e *expansion) add(dir string) {
	info, err := os.Lstat(filepath.Join(dir, "package.json"))
	switch {
	case err != nil || !info.Mode().IsRegular() || dir == e.root:
	case e.excludes:
		delete(e.found, dir)
	case len(e.found) < maxMembers:
		e.found[dir] = true
	}
}

// folders returns the names of the folders in dir, except node_modules and hidden ones.
func (e *expansion) folders(dir string) (names []string) {
	if e.entries <= 0 {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(e.entries)
	e.entries -= len(entries) + 1
	for _, d := range entries {
		if name := d.Name(); d.IsDir() && name != "node_modules" && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// patterns returns the workspaces of a package.json, which are a list, or in Yarn's form an object
// with the list.
func patterns(manifest []byte) []string {
	var file struct {
		Workspaces json.RawMessage `json:"workspaces"`
	}
	if json.Unmarshal(manifest, &file) != nil {
		return nil
	}
	var list []string
	if json.Unmarshal(file.Workspaces, &list) == nil {
		return list
	}
	var object struct {
		Packages []string `json:"packages"`
	}
	_ = json.Unmarshal(file.Workspaces, &object)
	return object.Packages
}

// within reports whether path is dir or below dir.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Top returns the folder that contains everything that the script may import. This is the root of
// the workspace, or the root of the project if there is no workspace.
func (s Source) Top() string {
	if s.Workspace != nil {
		return s.Workspace.Root
	}
	return s.Root
}

// contains reports whether the script may import the file at path, which must not contain symbolic
// links. The script may import files of the project. If the project belongs to a workspace, it may
// also import files of the workspace's packages and of the workspace's node_modules.
func (s Source) contains(path string) bool {
	if within(s.Root, path) {
		return true
	}
	w := s.Workspace
	return w != nil && (within(filepath.Join(w.Root, "node_modules"), path) ||
		slices.ContainsFunc(w.Members, func(member string) bool { return within(member, path) }))
}
