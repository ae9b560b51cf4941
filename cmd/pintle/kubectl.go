package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

// newKubectlCommand only documents the command: main hands everything behind
// the word kubectl to kubectl itself.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "Run the embedded, unmodified kubectl",
		DisableFlagParsing: true,
		Run:                func(*cobra.Command, []string) {},
	}
}

// runKubectl runs kubectl with args[0] as its name. Without a kubeconfig of
// the user's own choice it talks to the cluster of the default data directory.
func runKubectl(args []string) int {
	if os.Getenv("KUBECONFIG") == "" {
		data := os.Getenv("PINTLE_DATADIR")
		if data == "" {
			data = ".data"
		}
		file := filepath.Join(data, "admin.kubeconfig")
		if _, err := os.Stat(file); err == nil {
			os.Setenv("KUBECONFIG", file)
		}
	}
	os.Args = args
	return cli.Run(kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: kubectl.NewDefaultPluginHandler([]string{"kubectl"}),
		Arguments:     args,
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	}))
}
