// Package cni is the network plugin for any CNI of the world: it names the folder of CNI
// configurations that the runtime uses, and one with more CNI plugins. Who reaches pods of
// other nodes is that CNI.
//
// It owns nothing and changes nothing of the machine. Its status says whether there is a
// configuration.
//
// It imports sdk only.
package cni
