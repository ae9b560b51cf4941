package corefile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/parse"
	"github.com/coredns/coredns/plugin/pkg/transport"
)

// nodes are directives that say what the node says.
var nodes = map[string]string{
	"bind":           "where the server listens is the node's address and the key port",
	ClientsDirective: "whom the server answers is the node's to say",
	WaitingDirective: "how many queries wait is the key maxConcurrent",
	"import":         "files are not read; write it out",
}

// adapt makes an operator's Corefile one of this node.
func adapt(c *Config, n *Node) (string, error) {
	// What is behind import is read while it is parsed.
	for i, line := range strings.Split(c.Corefile, "\n") {
		if slices.ContainsFunc(strings.Fields(line), func(word string) bool { return strings.Trim(word, `"{}`) == "import" }) {
			return "", fmt.Errorf("corefile:%d: import: %s", i+1, nodes["import"])
		}
	}
	encoded, err := caddyfile.ToJSON([]byte(c.Corefile))
	if err != nil {
		return "", fmt.Errorf("corefile: %w", err)
	}
	var blocks caddyfile.EncodedCaddyfile
	if err := json.Unmarshal(encoded, &blocks); err != nil {
		return "", fmt.Errorf("corefile: %w", err)
	}
	if len(blocks) == 0 {
		return "", fmt.Errorf("corefile: it has no server block")
	}
	for i := range blocks {
		b := &blocks[i]
		name := strings.Join(b.Keys, " ")
		if b.Keys, err = keys(b.Keys, n.Port); err != nil {
			return "", fmt.Errorf("corefile: %w", err)
		}
		body := [][]any{}
		for _, line := range everywhere(c, n) {
			words := []any{}
			for _, word := range strings.Fields(line) {
				words = append(words, word)
			}
			body = append(body, words)
		}
		for _, words := range b.Body {
			words, err := directive(words, n)
			if err != nil {
				return "", fmt.Errorf("corefile: %s: %w", name, err)
			}
			if len(words) > 0 && words[0] != "shed" {
				body = append(body, words)
			}
		}
		b.Body = body
	}
	if encoded, err = json.Marshal(blocks); err != nil {
		return "", fmt.Errorf("corefile: %w", err)
	}
	text, err := caddyfile.FromJSON(encoded)
	if err != nil {
		return "", fmt.Errorf("corefile: %w", err)
	}
	return string(text) + "\n", nil
}

// keys are the zones of a server block at the node's port.
func keys(zones []string, port int) ([]string, error) {
	var out []string
	for _, key := range zones {
		scheme, rest := parse.Transport(key)
		if scheme != transport.DNS {
			return nil, fmt.Errorf("%s: the server speaks plain DNS alone", key)
		}
		hosts, own, err := plugin.SplitHostPort(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if own != "" && own != "53" && own != strconv.Itoa(port) {
			return nil, fmt.Errorf("%s: the server listens at one port; leave %s out and set the key port", key, own)
		}
		for _, host := range hosts {
			out = append(out, host+":"+strconv.Itoa(port))
		}
	}
	return out, nil
}

// directive makes one line of a server block one of this node; none: it goes.
func directive(words []any, n *Node) ([]any, error) {
	if len(words) == 0 {
		return nil, nil
	}
	name, _ := words[0].(string)
	if why, theirs := nodes[name]; theirs {
		return nil, fmt.Errorf("%s: %s", name, why)
	}
	argument := ""
	if len(words) > 1 {
		argument, _ = words[1].(string)
	}
	switch name {
	case "reload":
		return nil, nil // there is no file that could change
	case "prometheus":
		return []any{name, metricsAddress}, nil
	case "health", "ready":
		port := "8080"
		if name == "ready" {
			port = "8181"
		}
		address, err := onLoopback(argument, port)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		after := words[1:]
		if argument != "" {
			after = words[2:]
		}
		return append([]any{name, address}, after...), nil
	case "forward":
		return resolvers(words, n)
	case "kubernetes":
		return kubernetes(words, n)
	}
	return words, nil
}

// resolvers puts the machine's nameservers into the place of its file.
func resolvers(words []any, n *Node) ([]any, error) {
	out := []any{}
	for _, w := range words {
		if w != "/etc/resolv.conf" {
			out = append(out, w)
			continue
		}
		if len(n.Upstreams) == 0 {
			return nil, fmt.Errorf("forward: /etc/resolv.conf of this machine names no server that could be asked; name one in its place")
		}
		for _, s := range n.Upstreams {
			out = append(out, s)
		}
	}
	return out, nil
}

// kubernetes lets the plugin find the API where the node has it.
func kubernetes(words []any, n *Node) ([]any, error) {
	words = slices.Clone(words)
	endpoint := []any{"endpoint", APIServer}
	options, ok := words[len(words)-1].([]any)
	if !ok {
		return append(words, []any{endpoint}), nil
	}
	for _, o := range options {
		line, _ := o.([]any)
		if len(line) == 0 {
			continue
		}
		switch line[0] {
		case "endpoint", "tls", "kubeconfig":
			return nil, fmt.Errorf("kubernetes: %s: the plugin has the API by a socket of its own; leave it out", line[0])
		case "multicluster":
			return nil, fmt.Errorf("kubernetes: multicluster: ServiceImports are not among what the plugin may read")
		case "pods":
			if len(line) == 2 && line[1] == podsVerified && !n.Verified {
				return nil, fmt.Errorf("kubernetes: pods verified needs the right to read pods; name the plugin coredns-verified in node.dns, which asks for it")
			}
		}
	}
	words[len(words)-1] = append([]any{endpoint}, options...)
	return words, nil
}
