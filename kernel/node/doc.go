// Package node is the node agent (the kubelet's part): it makes the pods bound to its node run, over CRI.
package node
