package description

import (
	"strings"
	"testing"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		speaks uint32
		plugin *contractv1.PluginDescription
		want   []string // none: it is taken
	}{
		{"bare", 1, &contractv1.PluginDescription{Kind: sdk.KindPredicate}, nil},
		{"all that contract 1 has", 1, &contractv1.PluginDescription{Kind: sdk.KindPriority, Scope: "cluster", Normalize: "reverse-max", Reads: []string{"Service", "ReplicaSet"}}, nil},
		{"all that contract 3 has", 3, &contractv1.PluginDescription{Kind: sdk.KindPriority, Scope: "node-object", Normalize: "plugin-nonzero", MaxScore: 100}, nil},
		{"built before the sdk told that it needs contract 3", 1, &contractv1.PluginDescription{Kind: sdk.KindPredicate, Scope: "node-object"}, nil},
		{"unknown scope", 3, &contractv1.PluginDescription{Kind: sdk.KindPredicate, Scope: "galaxy"}, []string{`predicate "p": scope "galaxy"; want one of node-object, node, cluster`}},
		{"scope of a pre-filter", 3, &contractv1.PluginDescription{Kind: sdk.KindPreFilter, Scope: "Node"}, []string{`pre-filter "p": scope "Node"`}},
		{"unknown normalization", 3, &contractv1.PluginDescription{Kind: sdk.KindPriority, Normalize: "weird"}, []string{`priority "p": normalize "weird"; want one of none, `}},
		{"secrets", 3, &contractv1.PluginDescription{Kind: sdk.KindPredicate, Reads: []string{"Service", "Secret"}}, []string{`predicate "p": reads "Secret"; plugins read CSIDriver, `}},
		{"no kind", 3, &contractv1.PluginDescription{Kind: sdk.KindPredicate, Reads: []string{""}}, []string{`reads ""`}},
		{"newer than it speaks", 1, &contractv1.PluginDescription{Kind: sdk.KindPriority, Normalize: "reverse", MaxScore: 50}, []string{
			`priority "p": normalize reverse is there since contract 3, and it speaks 1`, `priority "p": maxScore is there since contract 3, and it speaks 1`}},
		{"newer than contract 2", 2, &contractv1.PluginDescription{Kind: sdk.KindPriority, Normalize: "min-max"}, []string{"normalize min-max is there since contract 3, and it speaks 2"}},
		{"words that are a format", 3, &contractv1.PluginDescription{Kind: sdk.KindPredicate, Scope: "%s%n\x1b"}, []string{`scope "%s%n\x1b"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.plugin.Name = "p"
			err := Check(c.speaks, []*contractv1.PluginDescription{c.plugin})
			if len(c.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
		})
	}
}
