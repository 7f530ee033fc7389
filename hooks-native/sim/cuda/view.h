/* view.h: what of the process's device memory the kernel that runs may touch; see view.c. */
#ifndef SIM_CUDA_VIEW_H
#define SIM_CUDA_VIEW_H

#include "work.h"

void view_changed(void);                        /* memory, or who may use it, has changed */
void view_for(const struct work *work);         /* before it is computed; compute thread only */

#endif
