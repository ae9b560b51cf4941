package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"
)

// list is a configuration as containerd writes it, with these ports.
func list(ports string) string {
	return `{"cniVersion": "1.1.0", "name": "pintle", "type": "hostports", "bridge": "b0", "dataDir": "/nowhere/ports",
"runtimeConfig": {"portMappings": [` + ports + `]}, "prevResult": {"cniVersion": "1.1.0",
"interfaces": [{"name": "b0"}, {"name": "veth1"}, {"name": "eth0", "sandbox": "/proc/1/ns/net"}, {"name": "eth1", "sandbox": "/proc/1/ns/net"}],
"ips": [{"interface": 0, "address": "10.244.0.1/24"}, {"interface": 3, "address": "10.9.0.3/24"}, {"interface": 2, "address": "10.244.0.5/24"}, {"interface": 2, "address": "fd00::5/64"}]}}`
}

func TestSandbox(t *testing.T) {
	c, ports, err := read([]byte(list(`{"hostPort": 80, "containerPort": 8080, "protocol": "tcp", "hostIP": "::ffff:192.0.2.1"}, {"hostPort": 53, "containerPort": 53, "protocol": "UDP"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if ports.Bridge != "b0" || ports.Directory != "/nowhere/ports" {
		t.Errorf("%+v", ports)
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox(&skel.CmdArgs{ContainerID: "one", IfName: "eth0"}, c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s)
	want := `{"id":"one","interface":"eth0","addresses":["10.244.0.5/24","fd00::5/64"],"ports":[` +
		`{"hostPort":80,"hostIP":"192.0.2.1","containerPort":8080,"protocol":"tcp"},{"hostPort":53,"containerPort":53,"protocol":"UDP"}],"turn":0}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// TestRefused: what is wrong is said before anything is written.
func TestRefused(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{`{`, "configuration"},
		{`{"dataDir": "/x"}`, "want the name of an interface"},
		{`{"bridge": "../x", "dataDir": "/x"}`, "want the name of an interface"},
		{`{"bridge": "..", "dataDir": "/x"}`, "want the name of an interface"},
		{`{"bridge": "a-name-longer-than-15", "dataDir": "/x"}`, "want the name of an interface"},
		{`{"bridge": "b0", "dataDir": "x"}`, "want an absolute path"},
		{`{"cniVersion": "1.1.0", "bridge": "b0", "dataDir": "/nowhere"}`, "put hostports behind"},
		{list(`{"hostPort": 70000, "containerPort": 80, "protocol": "tcp"}`), "want ports from 1 to 65535"},
		{list(`{"hostPort": 80, "containerPort": -1, "protocol": "tcp"}`), "want ports from 1 to 65535"},
		{list(`{"hostPort": 80, "containerPort": 80, "protocol": "tcp", "hostIP": "everywhere"}`), "is no address"},
		{list(`{"hostPort": 80, "containerPort": 80, "protocol": "tcp", "hostIP": "fe80::1%eth0"}`), "is no address"},
		{list(`{"hostPort": 80, "containerPort": 80, "protocol": "icmp"}`), "is not tcp, udp or sctp"},
		{strings.Replace(list(`{"hostPort": 80, "containerPort": 80, "protocol": "tcp"}`), `"ips"`, `"none"`, 1), "has host ports and no address"},
	} {
		if err := add(&skel.CmdArgs{ContainerID: "one", IfName: "eth0", StdinData: []byte(test.config)}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.config, err, test.want)
		}
	}
	// Of a sandbox that never had ports there is nothing to remove or to check.
	for name, f := range map[string]func(*skel.CmdArgs) error{"del": del, "check": check, "status": status} {
		if err := f(&skel.CmdArgs{ContainerID: "one", IfName: "eth0", StdinData: []byte(list(""))}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
