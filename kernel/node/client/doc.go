// Package client is what a node agent asks the API by.
//
// It owns which groups of the API an agent speaks, and Lean, a client that makes the client of a group when it is
// first asked for. kubernetes.Interface serves as well; its Clientset holds a client for each of sixty groups, which
// thousands of agents in one process cannot afford.
package client
