// Package cni is the network plugin for CNIs of others. It names the folder of CNI
// configurations that the runtime uses, and one with more CNI plugins. That CNI reaches pods of
// other nodes.
//
// It owns nothing and changes nothing of the machine. Its status says whether there is a
// configuration.
//
// It imports sdk only.
package cni
