package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/sdk/contract"
)

// commit is what the build was made from: `make` sets it with -ldflags, with "-dirty" behind it
// where files had changed. Where it is empty, the Go tool's own stamp is used.
var commit string

// versions is what pintle version prints.
type versions struct {
	// Version is that of the module: a tag, or (devel).
	Version string `json:"version"`
	// Commit is a hash of git, or unknown.
	Commit string `json:"commit"`
	// Contract has the versions of the contract with plugins that this binary speaks.
	Contract contractRange `json:"contract"`
	// APIServer is the version of the library k8s.io/apiserver.
	APIServer string `json:"apiServer"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
}

type contractRange struct {
	Oldest uint32 `json:"oldest"`
	Newest uint32 `json:"newest"`
}

func (c contractRange) String() string {
	if c.Oldest == c.Newest {
		return fmt.Sprint(c.Newest)
	}
	return fmt.Sprintf("%d-%d", c.Oldest, c.Newest)
}

// versionsOf reads what the build says of itself.
func versionsOf(info *debug.BuildInfo, commit string) versions {
	v := versions{
		Version: "(devel)", APIServer: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Contract: contractRange{Oldest: contract.Min, Newest: contract.Max},
	}
	var revision, dirty string
	if info != nil {
		v.Version = cmp.Or(info.Main.Version, v.Version)
		for _, dep := range info.Deps {
			if dep.Path == "k8s.io/apiserver" {
				v.APIServer = dep.Version
			}
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "-dirty"
			}
		}
	}
	if revision != "" {
		revision += dirty
	}
	v.Commit = cmp.Or(strings.TrimSpace(commit), revision, "unknown")
	return v
}

func newVersionCommand() *cobra.Command {
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the contract with plugins",
		Long: `Print the version of pintle, the commit that it was built from, the versions of the
contract with plugins that it speaks, and the versions of Go and of the library
k8s.io/apiserver that are in it.`,
		Example: `  pintle version
  pintle version -o json | jq -r .commit`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			info, _ := debug.ReadBuildInfo()
			v := versionsOf(info, commit)
			return output.Print(cmd.OutOrStdout(), v, func(w io.Writer) {
				fmt.Fprintf(w, "pintle %s, commit %s, plugin contract %s, k8s.io/apiserver %s, %s %s\n",
					v.Version, v.Commit, v.Contract, v.APIServer, v.Go, v.Platform)
			})
		},
	}
	output.Register(cmd, "table")
	return cmd
}
