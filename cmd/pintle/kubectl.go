package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
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
		} else if _, err := os.Stat(clientcmd.RecommendedHomeFile); err != nil {
			cmdutil.BehaviorOnFatal(func(message string, code int) {
				fatal(os.Stderr, message, file)
				os.Exit(code)
			})
		}
	}
	os.Args = args
	return cli.Run(kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: kubectl.NewDefaultPluginHandler([]string{"kubectl"}),
		Arguments:     args,
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	}))
}

// fatal prints kubectl's last words where no kubeconfig was found: it has gone
// to an address of its own then, which says nothing of what is missing.
func fatal(w io.Writer, message, file string) {
	if message == "" {
		return
	}
	fmt.Fprintln(w, strings.TrimSuffix(message, "\n"))
	if strings.Contains(message, "localhost:8080") {
		fmt.Fprintf(w, "pintle kubectl: no cluster is named: there is no %s and no %s; set KUBECONFIG to the file that pintle serve printed, or PINTLE_DATADIR to its data directory\n", file, clientcmd.RecommendedHomeFile)
	}
}
