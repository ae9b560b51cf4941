package plugincmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func newPluginListCommand() *cobra.Command {
	var cluster cli.ConnectFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins of the running kernel",
		Long:  "List the plugins of the running kernel: the same as kubectl get plugins.\n\n" + pluginExits,
		Example: `  pintle plugin list
  pintle plugin list -o wide
  pintle plugin list -o json | jq -r '.items[].metadata.name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			client, err := cluster.Plugins()
			if err != nil {
				return err
			}
			if output.Format == "table" || output.Wide() {
				table, err := client.Table(cmd.Context())
				if err != nil {
					return clusterCode("plugin list", err)
				}
				return printers.NewTablePrinter(printers.PrintOptions{Wide: output.Wide()}).PrintObj(table, cmd.OutOrStdout())
			}
			list, err := client.List(cmd.Context())
			if err != nil {
				return clusterCode("plugin list", err)
			}
			return output.Print(cmd.OutOrStdout(), list, nil)
		},
	}
	cluster.Register(cmd)
	output.Register(cmd, "table")
	return cmd
}

func newPluginDescribeCommand() *cobra.Command {
	var cluster cli.ConnectFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Say everything about one plugin of the running kernel",
		Long: `Say everything about one plugin of the running kernel: what it is asked for, what
of that an operator changed, what runs, and which versions ran before.

` + pluginExits,
		Example: "  pintle plugin describe PodFitsResources",
		Args:    onePlugin,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			client, err := cluster.Plugins()
			if err != nil {
				return err
			}
			o, err := client.Get(cmd.Context(), args[0])
			if err != nil {
				return clusterCode("plugin describe", err)
			}
			return output.Print(cmd.OutOrStdout(), o, func(w io.Writer) { describePlugin(w, o) })
		},
	}
	cluster.Register(cmd)
	cmd.ValidArgsFunction = cluster.Complete
	output.Register(cmd, "table")
	return cmd
}

func describePlugin(w io.Writer, o *v1alpha1.Plugin) {
	s, t := &o.Spec, &o.Status
	cli.Row(w, "NAME", o.Name)
	cli.Row(w, "KIND", s.Kind)
	cli.Row(w, "BUNDLE", s.Bundle)
	cli.Row(w, "VERSION", t.Version, t.Digest)
	cli.Row(w, "TRANSPORT", t.Transport)
	state := string(t.State)
	if t.LastTransition != nil {
		state += " since " + cli.When(t.LastTransition.Time)
	}
	cli.Row(w, "STATE", state, t.Message)
	for _, c := range t.Conditions {
		text := string(c.Status)
		if c.Status != metav1.ConditionTrue {
			text += " " + c.Reason
		}
		cli.Row(w, strings.ToUpper(c.Type), text, c.Message)
	}
	for _, f := range specFields(o) {
		cli.Row(w, strings.ToUpper(f.name), f.value, f.said)
	}
	calls := fmt.Sprintf("%d failed", t.Failures)
	if t.P99 != "" {
		calls += ", 99 of 100 within " + t.P99
	}
	cli.Row(w, "CALLS", t.Calls, calls)
	if t.Circuit != "" {
		cli.Row(w, "CIRCUIT", t.Circuit, circuits[t.Circuit])
	}
	if t.Memory != nil {
		cli.Row(w, "MEMORY", cli.BytesText(t.Memory.Value()), "of its bundle")
	}
	cli.Row(w, "RESTARTS", t.Restarts)
	for i, p := range t.Previous {
		name := ""
		if i == 0 {
			name = "RAN BEFORE"
		}
		cli.Row(w, name, p.Version, strings.TrimSuffix(p.Digest+" "+togetherWith(&p), " "))
	}
	if t.Shadow != nil {
		cli.Row(w, "SHADOW", t.Shadow.Version, fmt.Sprintf("%s; %d decisions, %d otherwise", t.Shadow.State, t.Shadow.Decisions, t.Shadow.Disagreements))
	}
}

// togetherWith says what a rollback to a revision brings back beside the version.
func togetherWith(r *v1alpha1.PluginRevision) string {
	var out []string
	if r.Config != nil {
		out = append(out, "configuration "+compact(r.Config.Raw))
	}
	if n := len(r.Permissions); n > 0 {
		out = append(out, fmt.Sprintf("%d narrowed permissions", n))
	}
	if n := len(r.AdmissionRules); n > 0 {
		out = append(out, fmt.Sprintf("%d narrowed admission rules", n))
	}
	if len(out) == 0 {
		return ""
	}
	return "with " + strings.Join(out, ", ")
}

// circuits are the states of a plugin's circuit in words.
var circuits = map[v1alpha1.PluginCircuit]string{
	v1alpha1.PluginCircuitClosed: "it is asked", v1alpha1.PluginCircuitOpen: "it is not asked for a while", v1alpha1.PluginCircuitHalfOpen: "the next question tries it",
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

type specField struct{ name, value, said string }

// specFields lists what the spec asks for, and whether the configuration says so
// or an operator did.
func specFields(o *v1alpha1.Plugin) []specField {
	all := func(data []byte) map[string]json.RawMessage {
		out := map[string]json.RawMessage{}
		_ = json.Unmarshal(data, &out)
		return out
	}
	data, err := json.Marshal(o.Spec)
	if err != nil {
		return nil
	}
	spec, configured := all(data), all([]byte(o.Annotations[v1alpha1.ConfiguredAnnotation]))
	var out []specField
	for _, name := range []string{"enabled", "profiles", "weight", "onFailure", "transport", "version", "digest", "timeout", "limits", "hostFunctions", "config", "shadow", "permissions", "admissionRules"} {
		was, is := compact(configured[name]), compact(spec[name])
		if is == "" && was == "" {
			continue
		}
		f := specField{name: "spec." + name, value: orDash(is), said: "as configured"}
		if long := name != "digest" && strings.HasPrefix(was, "sha256:"); was != is && !long {
			f.said = "changed by an operator; configured: " + orDash(was)
		}
		if name == "permissions" {
			f.value = fmt.Sprintf("%d rules", strings.Count(is, `"verbs"`))
		}
		out = append(out, f)
	}
	return slices.Clip(out)
}

// compact is a JSON value for people who compare it.
func compact(v json.RawMessage) string {
	var value any
	if json.Unmarshal(v, &value) != nil || value == nil {
		return ""
	}
	if text, ok := value.(string); ok {
		return text
	}
	out, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(out)
}
