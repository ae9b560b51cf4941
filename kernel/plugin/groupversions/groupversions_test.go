package groupversions

import (
	"strings"
	"testing"
)

func TestFaults(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, c := range []struct {
		name string
		list []GroupVersion
		want map[string]string // by place
	}{
		{"one", []GroupVersion{{Group: "notes.example.com", Version: "v1"}}, nil},
		{"two versions with priorities", []GroupVersion{{"n.example.com", "v1", 20000, 1000}, {"n.example.com", "v1beta1", 1, 1}}, nil},
		{"none", nil, map[string]string{"": "missing"}},
		{"Kubernetes' group", []GroupVersion{{Group: "apps", Version: "v1"}}, map[string]string{"0.group": `"apps"; want a domain`}},
		{"the core group", []GroupVersion{{Version: "v1"}}, map[string]string{"0.group": `""; want a domain`}},
		{"a path", []GroupVersion{{Group: "../kube.system", Version: "v1/../v2"}}, map[string]string{"0.group": "want a domain", "0.version": "want a version"}},
		{"another case", []GroupVersion{{Group: "Notes.example.com", Version: "V1"}}, map[string]string{"0.group": "want a domain", "0.version": "want a version"}},
		{"twice", []GroupVersion{{Group: "n.example.com", Version: "v1"}, {Group: "n.example.com", Version: "v1", VersionPriority: 3}}, map[string]string{"1.version": "there twice"}},
		{"priorities", []GroupVersion{{"n.example.com", "v1", 20001, 1001}, {"m.example.com", "v1", -1, -1}}, map[string]string{
			"0.groupPriorityMinimum": "20001", "0.versionPriority": "1001", "1.groupPriorityMinimum": "-1", "1.versionPriority": "-1"}},
		{"too long", []GroupVersion{{Group: strings.Join([]string{long, long, long, long, "a"}, "."), Version: "v" + long}}, map[string]string{"0.group": "longer than 253"}},
		{"too many", make([]GroupVersion, most+1), map[string]string{"": "33 of them"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Faults(c.list)
			for at, want := range c.want {
				if text := strings.Join(got[at], "; "); !strings.Contains(text, want) {
					t.Errorf("%s: %q, want %q", at, text, want)
				}
			}
			if len(c.want) == 0 && len(got) > 0 {
				t.Errorf("faults: %v", got)
			}
		})
	}
}
