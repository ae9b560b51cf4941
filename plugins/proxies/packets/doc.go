// Package packets is for tests only: it sends real packets through a proxy and
// looks who answers. A test process in a network namespace of its own is the
// node; two pods with servers, a pod that asks and a machine outside the cluster
// are processes in namespaces behind it (network.go). They speak TCP, UDP and
// SCTP (datagrams.go). What every proxy has to do with them stands in suite.go
// case by case, and in drawn.go as a model to which services and questions that
// are drawn at random are compared.
package packets
