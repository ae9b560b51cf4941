package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/scheduler/explain"
)

const explainLong = `Explain why a pod is where it is, or nowhere: every predicate's verdict and every
priority's score for each node, which version of which plugin said it, and why
the winner won.

For a bound pod it is the decision as it was made, as long as the scheduler keeps it
(the last 1,024); scores are kept of the best eight nodes. After a restart, or with
--now, every plugin is asked again, as if the pod were not there, and the output
says so. For a pod that waits, every plugin is asked about every node, and what
would have to change is counted.

It takes an administrator: cluster-admin, or a ClusterRole with the verb get on
nonResourceURLs ` + inspect.Path + `explain/*.

` + cli.ConnectHelp + `

Exit status: 0 done; 1 it failed; 2 wrong flags or arguments; 4 there is no such pod.`

// nodesFlags bound how many nodes are printed.
type nodesFlags struct {
	nodes int
	all   bool
}

func (f *nodesFlags) register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.nodes, "nodes", 10, "how many nodes to tell of, the best first")
	cmd.Flags().BoolVar(&f.all, "all", false, "tell of every node")
	cmd.MarkFlagsMutuallyExclusive("nodes", "all")
}

func (f *nodesFlags) limit() (int, error) {
	if f.all {
		return 0, nil
	}
	if f.nodes < 1 {
		return 0, cli.UsageFault(errors.New("--nodes must be at least 1; --all tells of every node"))
	}
	return f.nodes, nil
}

func newExplainCommand() *cobra.Command {
	var connect cli.ConnectFlags
	var output cli.OutputFlag
	var nodes nodesFlags
	var namespace string
	var now bool
	cmd := &cobra.Command{
		Use:   "explain pod NAME",
		Short: "Explain why a pod is where it is, or what keeps it from being anywhere",
		Long:  explainLong,
		Example: `  pintle explain pod web-0 -n shop
  pintle explain pod web-0 -n shop --all -o json | jq '.details[] | {node, total}'
  pintle explain pod web-0 --now`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if name, ok := strings.CutPrefix(args[0], "pod/"); ok && name != "" {
					return nil
				}
			}
			if len(args) != 2 || args[0] != "pod" && args[0] != "pods" && args[0] != "po" {
				return cli.UsageFault(fmt.Errorf("%s: want pod NAME; see %s --help", cmd.CommandPath(), cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			limit, err := nodes.limit()
			if err != nil {
				return err
			}
			cfg, err := connect.Config()
			if err != nil {
				return err
			}
			c, err := inspect.Dial(cfg)
			if err != nil {
				return err
			}
			var x explain.Explanation
			query := url.Values{"nodes": {strconv.Itoa(limit)}, "now": {strconv.FormatBool(now)}}
			name := strings.TrimPrefix(args[len(args)-1], "pod/")
			if err := c.Get(cmd.Context(), query, &x, "explain", "namespaces", namespace, "pods", name); err != nil {
				if apierrors.IsNotFound(err) {
					return cli.ExitWith(fmt.Errorf("explain: %w", err), cli.ExitGone)
				}
				return fmt.Errorf("explain: %w", err)
			}
			return output.Print(cmd.OutOrStdout(), &x, func(w io.Writer) { explanationText(w, &x) })
		},
	}
	connect.Register(cmd)
	output.Register(cmd, "table")
	nodes.register(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the pod")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return []string{"pod"}, cobra.ShellCompDirectiveNoFileComp
		}
		return connect.Objects(cmd, len(args) == 1, "pods", namespace), cobra.ShellCompDirectiveNoFileComp
	}
	cli.CompleteFlag(cmd, "namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return connect.Objects(cmd, true, "namespaces", ""), cobra.ShellCompDirectiveNoFileComp
	})
	cmd.Flags().BoolVar(&now, "now", false, "ask every plugin again, also where the decision is kept")
	return cmd
}

// explanationText is an explanation for people.
func explanationText(w io.Writer, x *explain.Explanation) {
	placed := "on no node"
	if x.Node != "" {
		placed = "on " + x.Node
	}
	cli.Row(w, "POD", x.Namespace+"/"+x.Pod, x.State+", "+placed)
	cli.Row(w, "PROFILE", x.Profile)
	made := "decided"
	if x.Source == explain.SourceEvaluation {
		made = "asked"
	}
	at := made + " " + cli.When(x.Time)
	if x.Attempt > 0 {
		at += fmt.Sprintf(", attempt %d", x.Attempt)
	}
	cli.Row(w, "BASIS", x.Source, at)
	cli.Row(w, "NODES", x.Nodes, fmt.Sprintf("%d fit", x.Feasible))
	for _, line := range []struct{ name, text string }{{"WHY", x.Why}, {"MESSAGE", x.Message}, {"NOTE", x.Note}} {
		if line.text != "" {
			cli.Row(w, line.name, line.text)
		}
	}
	for _, o := range x.Outcomes {
		cli.Row(w, "POINT", o.Point, strings.TrimSpace(o.Plugin+": "+o.Code+" "+strings.Join(o.Reasons, ", ")))
	}
	if x.Change != nil {
		changeText(w, x.Change)
	}
	if len(x.Details) > 0 {
		detailsText(w, x)
	}
	if len(x.Plugins) > 0 {
		cli.Row(w)
		cli.Row(w, "PLUGIN", "KIND", "WEIGHT", "REFUSED", "BUNDLE", "VERSION", "TRANSPORT")
		for _, p := range x.Plugins {
			weight, refused := "-", "-"
			if p.Kind == "priority" {
				weight = strconv.FormatInt(p.Weight, 10)
			} else {
				refused = strconv.Itoa(p.Refused)
			}
			cli.Row(w, p.Name, p.Kind, weight, refused, p.Bundle, p.Version, p.Transport)
		}
	}
}

func changeText(w io.Writer, c *explain.Change) {
	cli.Row(w)
	cli.Row(w, "WHAT WOULD HAVE TO CHANGE")
	if n := c.Nearest; n != nil {
		var refusals []string
		for _, v := range n.Verdicts {
			if v.Answer != explain.AnswerFits {
				refusals = append(refusals, v.Predicate+": "+reasonsText(v))
			}
		}
		cli.Row(w, "nearest node", n.Node, strings.Join(refusals, "; "))
	}
	alone := 0
	for _, o := range c.Predicates {
		alone = max(alone, o.Alone)
	}
	if alone == 0 {
		cli.Row(w, "no single change", "is enough", "the nearest node lacks all that it says")
	}
	for _, o := range c.Predicates {
		cli.Row(w, "without "+o.Predicate, nodesText(o.Alone)+" would fit", fmt.Sprintf("it refuses %d", o.Refused))
	}
	for _, o := range c.Reasons {
		least := ""
		if o.Least != nil {
			least = fmt.Sprintf("least lacking: %s %s on %s (%s)", o.Least.Missing(), o.Least.Resource, o.Least.Node, o.Least.Text)
		}
		cli.Row(w, fmt.Sprintf("without %q", o.Reason), nodesText(o.Alone)+" would fit", fmt.Sprintf("said of %d", o.Refused), least)
	}
}

func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func reasonsText(v explain.VerdictAccount) string {
	out := make([]string, 0, len(v.Reasons))
	for _, reason := range v.Reasons {
		for i := range v.Lacks {
			if l := &v.Lacks[i]; strings.HasSuffix(reason, " "+l.Resource) || reason == "Too many pods" && l.Resource == "pods" {
				reason += " (" + l.Text + ")"
			}
		}
		out = append(out, reason)
	}
	return strings.Join(out, ", ")
}

func detailsText(w io.Writer, x *explain.Explanation) {
	var priorities []string
	for _, p := range x.Plugins {
		if p.Kind == "priority" {
			priorities = append(priorities, p.Name)
		}
	}
	cli.Row(w)
	header := []any{"NODE", "TOTAL"}
	for _, p := range priorities {
		header = append(header, p)
	}
	cli.Row(w, append(header, "REFUSED BY")...)
	for i := range x.Details {
		n := &x.Details[i]
		name := n.Node
		if n.Chosen {
			name += " *"
		}
		cells := []any{name, "-"}
		if n.Fits && n.ScoresKept {
			cells[1] = n.Total
		}
		for k := range priorities {
			if k < len(n.Scores) {
				s := n.Scores[k]
				cells = append(cells, fmt.Sprintf("%d×%d (raw %d)", s.Score, s.Weight, s.Raw))
			} else {
				cells = append(cells, "-")
			}
		}
		var refusals []string
		asked := true
		for _, v := range n.Verdicts {
			switch v.Answer {
			case explain.AnswerNotAsked:
				asked = false
			case explain.AnswerFits:
			default:
				refusals = append(refusals, v.Predicate+": "+reasonsText(v))
			}
		}
		text := strings.Join(refusals, "; ")
		switch {
		case n.Fits && !n.ScoresKept:
			text = "fits; its scores were not kept"
		case n.Fits:
			text = "none: all fit"
		case !asked:
			text += " (later ones were not asked)"
		}
		cli.Row(w, append(cells, text)...)
	}
	if x.Omitted > 0 {
		cli.Row(w, fmt.Sprintf("and %s more: --nodes N or --all", nodesText(x.Omitted)))
	}
}
