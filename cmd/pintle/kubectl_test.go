package main

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// Where kubectl found no kubeconfig and went to its own address, a line says
// which files were looked for and what to set.
func TestKubectlWithoutCluster(t *testing.T) {
	for _, c := range []struct {
		name, message, want string
	}{
		{"nothing to say", "", ""},
		{"another fault", "error: unknown flag: --nosuch\n", "error: unknown flag: --nosuch\n"},
		{
			"no cluster", "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
			"The connection to the server localhost:8080 was refused - did you specify the right host or port?\n" +
				"pintle kubectl: no cluster is named: there is no .data/admin.kubeconfig and no " + clientcmd.RecommendedHomeFile +
				"; set KUBECONFIG to the file that pintle serve printed, or PINTLE_DATADIR to its data directory\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			fatal(&out, c.message, ".data/admin.kubeconfig")
			if out.String() != c.want {
				t.Errorf("%q, want %q", out.String(), c.want)
			}
		})
	}
}
