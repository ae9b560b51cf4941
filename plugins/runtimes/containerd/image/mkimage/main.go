// Mkimage writes an image archive that holds one static binary.
//
//	mkimage -o pause.tar -t docker.io/pintle/pause:1 -binary bin/pause
package main

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"pintle.dev/pintle/plugins/runtimes/containerd/image"
)

func main() {
	out := flag.String("o", "", "archive to write")
	tag := flag.String("t", "", "reference of the image, such as docker.io/pintle/pause:1")
	binary := flag.String("binary", "", "static binary that becomes the entry point")
	user := flag.String("user", "", "uid or uid:gid to run as")
	flag.Parse()
	if err := run(*out, *tag, *binary, *user); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

func run(out, tag, binary, user string) error {
	if out == "" || tag == "" || binary == "" {
		return fmt.Errorf("-o, -t and -binary are required")
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	at := path.Join("/", filepath.Base(binary))
	img, err := image.Build([]image.File{{Path: at, Data: data, Mode: 0o755}}, image.Config{
		Entrypoint: []string{at},
		Env:        []string{"PATH=/"},
		User:       user,
	})
	if err != nil {
		return err
	}
	return image.WriteArchive(out, tag, img)
}
