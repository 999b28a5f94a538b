/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank, started without mpirun: the headers and the libraries of the installed package fit
 * together.
 */
#include <stdio.h>

#include "dhow/dhow.h"
#include "dhow/mpi.h"

int main(int argc, char **argv) {
    dhow_mpi *job;
    int provided;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return 1;
    int refused = dhow_mpi_create(MPI_COMM_WORLD, NULL, NULL, &job) != DHOW_OK;
    printf("outside_mpi: %s\n", dhow_last_error());
    return MPI_Finalize() != MPI_SUCCESS || !refused;
}
