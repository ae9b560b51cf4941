package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// crossCheck finds what only several keys together make wrong.
func crossCheck(cfg *Config, file string, tree *yaml.Node) Faults {
	var faults Faults
	add := func(line int, key, format string, args ...any) {
		faults = append(faults, Fault{File: file, Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
	}
	line := func(path ...string) int {
		n := tree
		for _, p := range path {
			if n == nil || n.Kind != yaml.MappingNode {
				return 0
			}
			if n = lookup(n, p); n == nil {
				return 0
			}
		}
		if n == nil {
			return 0
		}
		return n.Line
	}
	if cfg.Scheduler.InitialBackoff > cfg.Scheduler.MaxBackoff {
		add(line("scheduler", "podInitialBackoff"), "scheduler.podInitialBackoff", "%s is longer than podMaxBackoff %s; want it shorter", cfg.Scheduler.InitialBackoff, cfg.Scheduler.MaxBackoff)
	}
	if life := cfg.Auth.MaxTokenExpiration; life > 0 && life < time.Hour {
		add(line("auth", "serviceAccountMaxTokenExpiration"), "auth.serviceAccountMaxTokenExpiration", "%s is shorter than 1h; want at least 1h, or 0 for no limit", life)
	}
	seen := map[string]bool{}
	for i, b := range cfg.Plugins.Bundles {
		if seen[b.Name] {
			add(line("plugins", "bundles"), fmt.Sprintf("plugins.bundles[%d].name", i), "bundle %q is listed twice; keep one", b.Name)
		}
		seen[b.Name] = true
	}
	if cfg.Plugins.Signatures == "require" && len(cfg.Plugins.Keys) == 0 {
		add(max(line("plugins", "signatures"), line("plugins")), "plugins.keys", "is empty while plugins.signatures is require; name the public keys of those whose bundles you take, such as [cosign.pub]")
	}
	names := map[string]bool{}
	for i, p := range cfg.Scheduler.Profiles {
		if names[p.SchedulerName] {
			add(line("scheduler", "profiles"), fmt.Sprintf("scheduler.profiles[%d].schedulerName", i), "%q is listed twice; keep one", p.SchedulerName)
		}
		names[p.SchedulerName] = true
		if first := cfg.Scheduler.Profiles[0].QueueSort; p.QueueSort != first {
			add(line("scheduler", "profiles"), fmt.Sprintf("scheduler.profiles[%d].queueSort", i), "%q differs from %q of the first profile; all profiles share one queue and name the same", p.QueueSort, first)
		}
		for _, list := range [][]string{
			p.Predicates, priorityNames(p.Priorities), p.PreEnqueue, p.PreFilter, p.PostFilter, p.PreScore, p.Reserve, p.Permit, p.PreBind, p.Bind, p.PostBind,
		} {
			once := map[string]bool{}
			for _, n := range list {
				if once[n] {
					add(line("scheduler", "profiles"), fmt.Sprintf("scheduler.profiles[%d]", i), "plugin %q is listed twice; keep one", n)
				}
				once[n] = true
			}
		}
	}
	binders := 0
	for i, e := range cfg.Scheduler.Extenders {
		key := fmt.Sprintf("scheduler.extenders[%d]", i)
		at := cfg.FaultAt([]string{"scheduler", "extenders", strconv.Itoa(i)}, "").Line
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			add(at, key+".weight", "is %d; want a positive one for its prioritizeVerb", e.Weight)
		}
		if e.BindVerb != "" {
			binders++
		}
		if (e.TLS.CertFile == "") != (e.TLS.KeyFile == "") {
			add(at, key+".tls", "names one of certFile and keyFile; want both or neither")
		}
	}
	if binders > 1 {
		add(line("scheduler", "extenders"), "scheduler.extenders", "%d of them have a bindVerb; only one extender can implement bind", binders)
	}
	if cfg.Node.Enabled && cfg.Node.Runtime == "" {
		add(line("node"), "node.runtime", "is empty; name a runtime plugin such as containerd, or set node.enabled to false")
	}
	checkNode(&cfg.Node, func(key, format string, args ...any) {
		add(line("node", key), "node."+key, format, args...)
	})
	if cfg.Hollow.Nodes > 0 && cfg.Hollow.Runtime == "" {
		add(line("hollow"), "hollow.runtime", "is empty; name a runtime plugin that simulates containers, such as hollow")
	}
	checkOnDemand(cfg, func(key, format string, args ...any) {
		add(line("controllers", "onDemand"), "controllers.onDemand"+key, format, args...)
	})
	checkElection(cfg, func(key, format string, args ...any) {
		add(line(strings.Split(key, ".")...), key, format, args...)
	})
	checkStore(cfg, func(key, format string, args ...any) {
		path := strings.Split(key, ".")
		at := line(path...)
		for at == 0 && len(path) > 1 {
			// A key that is not written is wrong by its group.
			path = path[:len(path)-1]
			at = line(path...)
		}
		add(at, key, format, args...)
	})
	checkAddresses(cfg, func(group, key, format string, args ...any) {
		add(line(group, key), group+"."+key, format, args...)
	})
	return faults
}

func priorityNames(ps []Priority) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.Name
	}
	return out
}
