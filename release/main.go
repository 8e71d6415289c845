// Command release builds the files of a release from one commit: binaries for each platform in
// archives, a bill of materials for each binary, container images for Linux, the npm package of the
// TypeScript SDK, the Go module as a proxy serves it, and the checksums of all these files. The
// files depend on the commit, its tag and the version of Go, but not on the machine, the folder or
// the time of the build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	commit := flag.String("commit", "HEAD", "the `COMMIT` or tag to build")
	repo := flag.String("repo", "..", "the `FOLDER` with the git repository")
	flag.Usage = func() {
		fmt.Fprint(
			os.Stderr,
			"usage: release [-commit COMMIT] [-repo FOLDER] OUT\n\nbuilds a release in the new folder OUT\n\n",
		)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := buildRelease(ctx, *repo, *commit, flag.Arg(0))
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}
