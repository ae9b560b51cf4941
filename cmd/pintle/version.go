package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print versions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, kubernetes := "(devel)", "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
				for _, dep := range info.Deps {
					if dep.Path == "k8s.io/apiserver" {
						kubernetes = dep.Version
					}
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "pintle %s, k8s.io/apiserver %s, %s %s/%s\n",
				version, kubernetes, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
